import { useEffect } from "react";
import { useRoute } from "../state/router";
import { EmptyNotice } from "../ui/Notes";
import { Broadcasts } from "./Broadcasts";
import { CrewPage } from "./CrewPage";
import { Crews } from "./Crews";
import { Questions } from "./Questions";
import { RunPage } from "./RunPage";
import { Runs } from "./Runs";
import { Usage } from "./Usage";

export function Screen() {
  const [place = "runs", name] = useRoute();
  useEffect(() => {
    document.title = `${name ?? place} · Interlock`;
  }, [place, name]);
  if (place === "runs") return name ? <RunPage key={name} run={name} /> : <Runs />;
  if (place === "questions") return <Questions />;
  if (place === "crews") return name ? <CrewPage key={name} name={name} /> : <Crews />;
  if (place === "broadcasts") return <Broadcasts />;
  if (place === "usage") return <Usage />;
  return (
    <EmptyNotice title="Page not found">
      <a href="#/runs">Go to runs</a>
    </EmptyNotice>
  );
}
