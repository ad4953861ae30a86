import type { CrewDetail } from "../api/types";
import { PlainText } from "../ui/PlainText";

/** The instructions of each agent: the author's prompt, and the signal contract that Interlock adds. */
export function CrewPrompts({ crew }: { crew: CrewDetail }) {
  return (
    <div className="prompts" tabIndex={0} role="group" aria-label="Prompts">
      {crew.agent_details.map((agent) => (
        <details key={agent.id} open={agent.id === crew.entry_point}>
          <summary>
            <bdi className="author">{agent.id}</bdi> <bdi className="quiet">{agent.role || agent.description}</bdi>{" "}
            <bdi className="quiet">{agent.model}</bdi>
          </summary>
          {agent.tools.length > 0 && (
            <p className="quiet">
              Tools: <bdi>{agent.tools.join(", ")}</bdi>
            </p>
          )}
          <div className="prompt">
            <PlainText text={agent.instructions} empty="No instructions" />
          </div>
        </details>
      ))}
    </div>
  );
}
