import { lazy, Suspense, type ComponentProps } from "react";
import type { CrewGraph as Graph } from "./CrewGraph";
import { LoadingNotice } from "../ui/Notes";

const LazyCrewGraph = lazy(() => import("./CrewGraph").then(({ CrewGraph }) => ({ default: CrewGraph })));

/** The graph is a third of the page's code: the first screen that shows one loads it. */
export function CrewGraph(props: ComponentProps<typeof Graph>) {
  return (
    <Suspense fallback={<LoadingNotice what="the graph" />}>
      <LazyCrewGraph {...props} />
    </Suspense>
  );
}
