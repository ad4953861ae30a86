import { QuestionDrawer } from "./questions/QuestionDrawer";
import { Notices } from "./questions/Notices";
import { Screen } from "./screens/Screen";
import { auth } from "./state/auth";
import { useStore } from "./state/store";
import { Login } from "./ui/Login";
import { Shell } from "./ui/Shell";

export function App() {
  const now = useStore(auth);
  if (now.status === "checking") return null;
  if (now.status === "signed-out") return <Login reason={now.reason} />;
  return (
    <Shell>
      <Screen />
      <QuestionDrawer />
      <Notices />
    </Shell>
  );
}
