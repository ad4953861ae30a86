import { PlainText } from "../ui/PlainText";

/** What a model thought before its reply, folded. */
export function Reasoning({ text }: { text: string }) {
  return (
    <details className="reasoning quiet">
      <summary>Reasoning</summary>
      <PlainText text={text} />
    </details>
  );
}
