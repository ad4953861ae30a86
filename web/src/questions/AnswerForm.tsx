import { useId, useMemo, useState } from "react";
import type { Question } from "../api/types";
import { blankDraft, readDraft, type Faults } from "../forms/draft";
import { FieldView } from "../forms/Fields";
import { locateFault } from "../forms/fieldFault";
import { FREE_TEXT, shapeOf, type Shape } from "../forms/shape";
import { ScopedButton } from "../ui/ScopedButton";
import { useDraft } from "../state/drafts";
import { FormFrame } from "./FormFrame";
import { useAnswer } from "./useAnswer";
import { focusFault } from "./focusFault";

interface Props {
  readonly question: Question;
  readonly isOpen: boolean;
  readonly done: () => void;
}

const NO_FAULTS: Faults = new Map();

/** A form built from the rules of the answer: choices, a pattern, a schema, or any text. */
export function AnswerForm({ question, isOpen, done }: Props) {
  const form = useId();
  const shape = useMemo(() => answerShape(question), [question]);
  const [draft, setDraft] = useDraft(question.key, () => blankDraft(shape));
  const [faults, setFaults] = useState(NO_FAULTS);
  const { refusal, send } = useAnswer(question, done);
  const located = useMemo(() => locateFault(shape, refusal), [shape, refusal]);
  const submit = (): void => {
    const read = readDraft(shape, draft);
    setFaults(read.faults);
    if (read.faults.size) focusFault(form, read.faults);
    else void send(answerText(question, read.value));
  };
  return (
    <FormFrame submit={submit} isOpen={isOpen} refusal={located.rest || (located.faults.size ? "The answer was not accepted: see the marked field." : "")}>
      <FieldView
        shape={shape}
        draft={draft}
        change={(to) => {
          setDraft(to);
          setFaults(NO_FAULTS);
        }}
        label="Your answer"
        isRequired
        place=""
        form={form}
        faults={faults.size ? faults : located.faults}
        isReadOnly={!isOpen}
      />
      <div className="actions">
        <ScopedButton needs="answer" type="submit" className="primary" disabled={!isOpen}>
          Send answer
        </ScopedButton>
        <span className="quiet">Ctrl-Enter sends it</span>
      </div>
    </FormFrame>
  );
}

function answerShape({ choices, pattern, answer_schema: schema }: Question): Shape {
  if (choices.length) return { kind: "choice", title: "", description: "", options: choices };
  if (pattern) return { ...FREE_TEXT, isLong: false, pattern };
  return Object.keys(schema).length ? shapeOf(schema, "text") : FREE_TEXT;
}

/** A text is sent as it is; everything else as JSON. */
function answerText({ choices, answer_schema: schema }: Question, value: unknown): string {
  const isText = choices.length > 0 || (schema["type"] ?? "string") === "string";
  return isText ? String(value) : JSON.stringify(value);
}
