import { lazy, Suspense, type ComponentProps } from "react";
import type { CrewGraph as Graph } from "./CrewGraph";
import { Loading } from "../ui/Notes";

const Loaded = lazy(() => import("./CrewGraph").then(({ CrewGraph }) => ({ default: CrewGraph })));

/** The graph is a third of the page's code: it is fetched by the first screen that draws one. */
export function CrewGraph(props: ComponentProps<typeof Graph>) {
  return (
    <Suspense fallback={<Loading what="the graph" />}>
      <Loaded {...props} />
    </Suspense>
  );
}
