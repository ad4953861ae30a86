import { type ReactNode } from "react";
import { childPlace, blankDraft, type Draft, type Faults } from "./draft";
import type { ChoiceShape, Field, GroupShape, ListShape, Shape } from "./shape";
import { hintOf } from "./hints";

export interface FieldProps<Each extends Shape = Shape> {
  readonly shape: Each;
  readonly draft: Draft;
  readonly change: (draft: Draft) => void;
  readonly label: string;
  readonly isRequired: boolean;
  readonly place: string;
  /** The first part of every id in this form. */
  readonly form: string;
  readonly faults: Faults;
  readonly isReadOnly: boolean;
}

/** One value of a form with its label, hint and fault. */
export function FieldView(props: FieldProps): ReactNode {
  const { shape } = props;
  if (shape.kind === "group") return <GroupView {...props} shape={shape} />;
  if (shape.kind === "list") return <ListView {...props} shape={shape} />;
  if (shape.kind === "yesno") return <RadioView {...props} options={YES_NO} />;
  if (shape.kind === "choice") return <ChoiceView {...props} shape={shape} />;
  return <InputView {...props} />;
}

const YES_NO: readonly Option[] = [
  { value: "true", words: "Yes" },
  { value: "false", words: "No" },
];

interface Option {
  readonly value: string;
  readonly words: string;
}

function idOf({ form, place }: FieldProps): string {
  return `${form}-${place || "whole"}`;
}

function InputView(props: FieldProps) {
  const { shape, draft, change, isRequired, isReadOnly, faults, place } = props;
  const id = idOf(props);
  const common = {
    id,
    value: typeof draft === "string" ? draft : "",
    readOnly: isReadOnly,
    "aria-required": isRequired,
    "aria-invalid": faults.has(place),
    "aria-describedby": `${id}-hint ${id}-fault`,
    dir: "auto" as const,
    onChange: (event: { target: { value: string } }) => change(event.target.value),
  };
  const isLong = shape.kind === "json" || (shape.kind === "text" && shape.isLong);
  const type = shape.kind === "text" && shape.isDate ? "date" : "text";
  return (
    <div className="field">
      <label htmlFor={id}>
        <Name {...props} />
      </label>
      <Hint {...props} />
      {isLong ? (
        <textarea {...common} rows={place && shape.kind === "text" ? 2 : 4} spellCheck={shape.kind === "text"} />
      ) : (
        <input {...common} type={type} inputMode={shape.kind === "number" ? "decimal" : undefined} autoComplete="off" />
      )}
      <Fault {...props} />
    </div>
  );
}

/** More options than this are a select. */
const RADIOS_MAX = 8;

function ChoiceView(props: FieldProps<ChoiceShape>) {
  const options = props.shape.options.map((each, n) => ({
    value: String(n),
    words: typeof each === "string" ? each : JSON.stringify(each),
  }));
  return options.length > RADIOS_MAX ? <SelectView {...props} options={options} /> : <RadioView {...props} options={options} />;
}

function SelectView(props: FieldProps & { options: readonly Option[] }) {
  const { draft, change, isRequired, isReadOnly, faults, place, options } = props;
  const id = idOf(props);
  return (
    <div className="field">
      <label htmlFor={id}>
        <Name {...props} />
      </label>
      <Hint {...props} />
      <select
        id={id}
        value={typeof draft === "string" ? draft : ""}
        aria-required={isRequired}
        aria-disabled={isReadOnly}
        aria-invalid={faults.has(place)}
        aria-describedby={`${id}-hint ${id}-fault`}
        onChange={(event) => !isReadOnly && change(event.target.value)}
      >
        <option value="">{isRequired ? "Choose…" : "Not given"}</option>
        {options.map(({ value, words }) => (
          <option key={value} value={value} dir="auto">
            {words}
          </option>
        ))}
      </select>
      <Fault {...props} />
    </div>
  );
}

function RadioView(props: FieldProps & { options: readonly Option[] }) {
  const { draft, change, isRequired, isReadOnly, faults, place, options } = props;
  const id = idOf(props);
  const all = isRequired ? options : [...options, { value: "", words: "Not given" }];
  return (
    <fieldset
      className="field options"
      id={id}
      tabIndex={-1}
      role="radiogroup"
      aria-required={isRequired}
      aria-invalid={faults.has(place)}
      aria-describedby={`${id}-hint ${id}-fault`}
    >
      <legend>
        <Name {...props} />
      </legend>
      <Hint {...props} />
      {all.map(({ value, words }) => (
        <label key={value} className="option">
          <input
            type="radio"
            name={id}
            value={value}
            checked={draft === value}
            aria-disabled={isReadOnly}
            onChange={() => !isReadOnly && change(value)}
          />
          <bdi dir="auto">{words}</bdi>
        </label>
      ))}
      <Fault {...props} />
    </fieldset>
  );
}

function GroupView(props: FieldProps<GroupShape>) {
  const { shape, draft, change, place } = props;
  const drafts = typeof draft === "string" ? [] : draft;
  const changeAt = (n: number, to: Draft): void =>
    change(shape.fields.map((field, m) => (m === n ? to : (drafts[m] ?? blankDraft(field.shape)))));
  const fields = shape.fields.map((field: Field, n) => (
    <FieldView
      {...props}
      key={field.name}
      shape={field.shape}
      label={field.shape.title || field.name}
      isRequired={field.isRequired}
      place={childPlace(place, n)}
      draft={drafts[n] ?? blankDraft(field.shape)}
      change={(to) => changeAt(n, to)}
    />
  ));
  if (!place) return <div className="fields">{fields}</div>;
  return (
    <fieldset className="group" id={idOf(props)} tabIndex={-1}>
      <legend>
        <Name {...props} />
      </legend>
      <Hint {...props} />
      {fields}
      <Fault {...props} />
    </fieldset>
  );
}

function ListView(props: FieldProps<ListShape>) {
  const { shape, draft, change, place, label, isReadOnly } = props;
  const drafts = typeof draft === "string" ? [] : draft;
  return (
    <fieldset className="group" id={idOf(props)} tabIndex={-1} aria-describedby={`${idOf(props)}-fault`}>
      <legend>
        <Name {...props} />
      </legend>
      <Hint {...props} />
      {drafts.map((each, n) => (
        <div key={n} className="list-item">
          <FieldView
            {...props}
            shape={shape.item}
            label={`${label} ${n + 1}`}
            isRequired
            place={childPlace(place, n)}
            draft={each}
            change={(to) => change(drafts.map((old, m) => (m === n ? to : old)))}
          />
          <button
            type="button"
            className="small"
            disabled={isReadOnly}
            aria-label={`Remove ${label} ${n + 1}`}
            onClick={() => change(drafts.filter((_, m) => m !== n))}
          >
            Remove
          </button>
        </div>
      ))}
      <button
        type="button"
        className="small"
        disabled={isReadOnly || (shape.most !== null && drafts.length >= shape.most)}
        onClick={() => change([...drafts, blankDraft(shape.item)])}
      >
        Add <bdi>{label}</bdi>
      </button>
      <Fault {...props} />
    </fieldset>
  );
}

function Name({ label, isRequired, place }: FieldProps) {
  return (
    <>
      <bdi dir="auto">{label}</bdi>
      {place && !isRequired && <span className="quiet"> (optional)</span>}
    </>
  );
}

function Hint(props: FieldProps) {
  const hint = hintOf(props.shape);
  const { description } = props.shape;
  if (!hint && !description) return null;
  return (
    <p className="hint quiet" id={`${idOf(props)}-hint`}>
      {description && <bdi dir="auto">{description}</bdi>} {hint && <bdi dir="auto">{hint}</bdi>}
    </p>
  );
}

function Fault(props: FieldProps) {
  const fault = props.faults.get(props.place);
  return (
    <p className="field-fault" id={`${idOf(props)}-fault`}>
      {fault && <bdi dir="auto">{fault}</bdi>}
    </p>
  );
}
