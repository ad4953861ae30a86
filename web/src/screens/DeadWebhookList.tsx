import { post, remove } from "../api/client";
import type { DeadLetter, DeadLetters as Letters } from "../api/types";
import { useResource } from "../state/useResource";
import { missingScopeMessage, useHasScope } from "../state/auth";
import { plural, formatDateTime } from "../state/format";
import { ScopedButton } from "../ui/ScopedButton";
import { EmptyNotice } from "../ui/Notes";
import { PlainText } from "../ui/PlainText";
import { Listing } from "./Listing";
import { useAction } from "./useAction";

const POLL_MS = 5_000;
const PATH = "/v1/engine/webhooks/dead";

/** Webhook deliveries that failed on every attempt. */
export function DeadWebhookList() {
  const canRead = useHasScope("admin");
  const { value, error, refresh } = useResource<Letters>(canRead ? PATH : null, undefined, POLL_MS);
  const { error: refused, send } = useAction(refresh);
  return (
    <Listing
      title="Failed webhooks"
      head={["webhook", "reason", "gave up", ""]}
      items={canRead ? value && value.letters : []}
      empty={canRead ? <EmptyNotice title="No failed webhooks" /> : <EmptyNotice title="Not available">{missingScopeMessage("admin")}</EmptyNotice>}
      {...{ error, refresh, refused }}
      row={(letter) => (
        <tr key={letter.number}>
          <td>
            <bdi>{letter.hook}</bdi>
            <LetterBody letter={letter} />
          </td>
          <td>
            <bdi>{letter.error}</bdi> <span className="quiet">after {plural(letter.attempts, "try", "tries")}</span>
          </td>
          <td>{formatDateTime(letter.died_at)}</td>
          <td className="actions">
            <ScopedButton needs="admin" className="small" onClick={() => void send(() => post(`${PATH}/${letter.number}/retry`, {}))}>
              Deliver again
            </ScopedButton>
            <ScopedButton needs="admin" className="small danger" onClick={() => void send(() => remove(`${PATH}/${letter.number}`))}>
              Discard
            </ScopedButton>
          </td>
        </tr>
      )}
    />
  );
}

function LetterBody({ letter }: { letter: DeadLetter }) {
  const { type } = letter.body;
  return (
    <details>
      <summary>
        <bdi>{typeof type === "string" ? type : "its body"}</bdi>
      </summary>
      <div className="prompt">
        <PlainText text={JSON.stringify(letter.body, null, 2)} />
      </div>
    </details>
  );
}
