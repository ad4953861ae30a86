export function ShowAll({ text, show }: { text: string; show: () => void }) {
  return (
    <button type="button" className="small" onClick={show}>
      Show all {text.length.toLocaleString("en")} characters
    </button>
  );
}
