import type { Problems } from "../api/types";
import { useFetched } from "../state/fetched";
import { Empty, Failed, Loading } from "../ui/Notes";

export function CrewProblems({ name }: { name: string }) {
  const { value, error, again } = useFetched<Problems>(`/v1/crews/${encodeURIComponent(name)}/problems`);
  if (error) return <Failed error={error} again={again} />;
  if (!value) return <Loading what="the problems" />;
  if (!value.problems.length) return <Empty title="No problems">Loaded at server start; restart to pick up changes.</Empty>;
  return (
    <ul className="problems" tabIndex={0} aria-label="Problems">
      {value.problems.map((problem, n) => (
        <li key={n} className={`problem problem-${problem.severity}`}>
          <p className="entry-head">
            <b>{problem.severity}</b>
            <code>
              <bdi>
                {problem.file}:{problem.line}:{problem.column}
              </bdi>
            </code>
            <span className="quiet">{problem.code}</span>
          </p>
          <p>
            <bdi>{problem.message}</bdi>
          </p>
          {problem.fix && (
            <p>
              <b>Fix:</b> <bdi>{problem.fix}</bdi>
            </p>
          )}
          <p className="quiet">
            <bdi>{problem.path}</bdi>
          </p>
        </li>
      ))}
    </ul>
  );
}
