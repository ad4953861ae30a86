import { useState } from "react";
import { signInWithKey } from "../state/auth";

export function Login({ reason }: { reason: string }) {
  const [key, setKey] = useState("");
  return (
    <main className="login">
      <h1>Interlock</h1>
      {reason && (
        <p className="failed" role="alert">
          {reason}
        </p>
      )}
      <p>
        Open the address that <code>interlock serve</code> printed: its code works once. Or paste the key from the file{" "}
        <code>server.key</code> in the data folder.
      </p>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          void signInWithKey(key.trim());
        }}
      >
        <label htmlFor="key">Key</label>
        <input
          id="key"
          type="password"
          autoComplete="off"
          autoFocus
          required
          value={key}
          onChange={(event) => setKey(event.target.value)}
        />
        <button type="submit" className="primary">
          Sign in
        </button>
      </form>
    </main>
  );
}
