import { useState } from "react";
import { enterWith } from "../state/session";

export function Login({ why }: { why: string }) {
  const [key, setKey] = useState("");
  return (
    <main className="login">
      <h1>Interlock</h1>
      {why && (
        <p className="failed" role="alert">
          {why}
        </p>
      )}
      <p>
        Open the address that <code>interlock serve</code> printed: it holds a code that works once. Or paste the key, which is
        in the file <code>server.key</code> of the data folder.
      </p>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          void enterWith(key.trim());
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
