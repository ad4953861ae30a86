import { Drawer } from "./questions/Drawer";
import { Notices } from "./questions/Notices";
import { Screen } from "./screens/Screen";
import { entry } from "./state/session";
import { useStore } from "./state/store";
import { Login } from "./ui/Login";
import { Shell } from "./ui/Shell";

export function App() {
  const now = useStore(entry);
  if (now.at === "asking") return null;
  if (now.at === "door") return <Login why={now.why} />;
  return (
    <Shell>
      <Screen />
      <Drawer />
      <Notices />
    </Shell>
  );
}
