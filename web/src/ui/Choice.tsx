interface Props<Value extends string> {
  readonly label: string;
  readonly value: Value;
  readonly choose: (value: Value) => void;
  /** The label of each value, in order. */
  readonly options: Readonly<Record<Value, string>>;
}

export function Choice<Value extends string>({ label, value, choose, options }: Props<Value>) {
  return (
    <label>
      {label}{" "}
      <select value={value} onChange={(event) => choose(event.target.value as Value)}>
        {Object.entries<string>(options).map(([id, words]) => (
          <option key={id} value={id}>
            {words}
          </option>
        ))}
      </select>
    </label>
  );
}
