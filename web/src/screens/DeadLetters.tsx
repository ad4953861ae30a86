import { post, remove } from "../api/client";
import type { DeadLetter, DeadLetters as Letters } from "../api/types";
import { useFetched } from "../state/fetched";
import { lacking, useMay } from "../state/session";
import { plural, when } from "../state/words";
import { Act } from "../ui/Act";
import { Empty } from "../ui/Notes";
import { Said } from "../ui/Said";
import { Listing } from "./Listing";
import { useSending } from "./useSending";

const LOOK_MS = 5_000;
const PATH = "/v1/engine/webhooks/dead";

/** What the server wanted to tell others, and they did not take however often it was tried. */
export function DeadLetters() {
  const mayLook = useMay("admin");
  const { value, error, again } = useFetched<Letters>(mayLook ? PATH : null, undefined, LOOK_MS);
  const { error: refused, send } = useSending(again);
  return (
    <Listing
      title="Webhooks that failed"
      head={["webhook", "why", "given up", ""]}
      items={mayLook ? value && value.letters : []}
      empty={mayLook ? <Empty title="No failed webhooks" /> : <Empty title="This is not shown to you.">{lacking("admin")}</Empty>}
      {...{ error, again, refused }}
      row={(letter) => (
        <tr key={letter.number}>
          <td>
            <bdi>{letter.hook}</bdi>
            <Body letter={letter} />
          </td>
          <td>
            <bdi>{letter.error}</bdi> <span className="quiet">after {plural(letter.attempts, "try", "tries")}</span>
          </td>
          <td>{when(letter.died_at)}</td>
          <td className="actions">
            <Act needs="admin" className="small" onClick={() => void send(() => post(`${PATH}/${letter.number}/retry`, {}))}>
              Deliver again
            </Act>
            <Act needs="admin" className="small danger" onClick={() => void send(() => remove(`${PATH}/${letter.number}`))}>
              Discard
            </Act>
          </td>
        </tr>
      )}
    />
  );
}

function Body({ letter }: { letter: DeadLetter }) {
  const { type } = letter.body;
  return (
    <details>
      <summary>
        <bdi>{typeof type === "string" ? type : "its body"}</bdi>
      </summary>
      <div className="prompt">
        <Said text={JSON.stringify(letter.body, null, 2)} />
      </div>
    </details>
  );
}
