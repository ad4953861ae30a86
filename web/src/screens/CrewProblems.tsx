import type { Problems } from "../api/types";
import { useResource } from "../state/useResource";
import { EmptyNotice, ErrorNotice, LoadingNotice } from "../ui/Notes";

export function CrewProblems({ name }: { name: string }) {
  const { value, error, refresh } = useResource<Problems>(`/v1/crews/${encodeURIComponent(name)}/problems`);
  if (error) return <ErrorNotice error={error} retry={refresh} />;
  if (!value) return <LoadingNotice what="the problems" />;
  if (!value.problems.length) return <EmptyNotice title="No problems" />;
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
