import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import "@xyflow/react/dist/style.css";
import "uplot/dist/uPlot.min.css";
import "./style/theme.css";
import "./style/frame.css";
import "./style/parts.css";
import "./style/run.css";
import "./style/text.css";
import "./style/questions.css";
import { App } from "./App";
import { startSession } from "./state/auth";

const root = document.getElementById("root");
if (root) {
  createRoot(root).render(
    <StrictMode>
      <App />
    </StrictMode>,
  );
  void startSession();
}
