import { useId, useMemo, useState } from "react";
import type { Question } from "../api/types";
import { isRecord } from "../api/events";
import { changesOf } from "../forms/changes";
import { draftOf, hasRoundedNumbers, readDraft, type Faults } from "../forms/draft";
import { FieldView } from "../forms/Fields";
import { argumentsShape } from "../forms/guess";
import { shapeOf } from "../forms/shape";
import { CodeBlock } from "../markdown/CodeBlock";
import { Changes } from "./Changes";
import { Decide } from "./Decide";
import { useDraft } from "./drafts";
import { focusFault } from "./focusFault";
import { FormFrame } from "./FormFrame";
import { useAnswering } from "./useAnswering";

interface Props {
  readonly question: Question;
  readonly isOpen: boolean;
  readonly done: () => void;
}

/** A tool call that needs a person: its arguments as fields, and what was changed, before it is approved. */
export function ApprovalForm({ question, isOpen, done }: Props) {
  const given = question.arguments;
  const canEdit = isRecord(given) && !hasRoundedNumbers(given);
  return canEdit ? (
    <Editable question={question} given={given} isOpen={isOpen} done={done} />
  ) : (
    <Fixed question={question} isOpen={isOpen} done={done} />
  );
}

function Editable({ question, given, isOpen, done }: Props & { given: Readonly<Record<string, unknown>> }) {
  const form = useId();
  const shape = useMemo(() => argumentsShape(shapeOf(question.parameters, "json"), given), [question.parameters, given]);
  const proposed = useMemo(() => draftOf(shape, given), [shape, given]);
  const [draft, setDraft] = useDraft(question.key, () => proposed);
  const [shown, setShown] = useState<Faults>(new Map());
  const { refusal, send } = useAnswering(question, done);
  const read = useMemo(() => readDraft(shape, draft, "arguments", given), [shape, draft, given]);
  const isTouched = JSON.stringify(draft) !== JSON.stringify(proposed);
  const changes = isTouched ? changesOf(given, read.value) : [];
  const approve = (): void => {
    const faults = isTouched ? read.faults : new Map<string, string>();
    setShown(faults);
    if (faults.size) focusFault(form, faults);
    else void send(changes.length ? JSON.stringify(read.value) : "yes");
  };
  return (
    <FormFrame submit={approve} isOpen={isOpen} refusal={refusal}>
      {shape.fields.length ? (
        <FieldView
          shape={shape}
          draft={draft}
          change={(to) => {
            setDraft(to);
            setShown(new Map());
          }}
          label="Arguments"
          isRequired
          place=""
          form={form}
          faults={shown}
          isReadOnly={!isOpen}
        />
      ) : (
        <p className="quiet">It is called without arguments.</p>
      )}
      <Changes changes={changes} undo={() => setDraft(proposed)} />
      <Decide approve={changes.length ? "Approve with changes" : "Approve"} send={send} isOpen={isOpen} />
    </FormFrame>
  );
}

/** Arguments that are not an object, or that a browser would round, are approved as they are or not at all. */
function Fixed({ question, isOpen, done }: Props) {
  const { refusal, send } = useAnswering(question, done);
  const given = question.arguments;
  return (
    <FormFrame submit={() => void send("yes")} isOpen={isOpen} refusal={refusal}>
      <p className="quiet">These arguments cannot be edited here.</p>
      <CodeBlock text={typeof given === "string" ? given : argumentsText(question)} />
      <Decide send={send} isOpen={isOpen} />
    </FormFrame>
  );
}

/** As the question has them: there numbers are as the model wrote them. */
function argumentsText({ question, tool }: Question): string {
  const before = ` wants to use ${tool} with `;
  const at = question.indexOf(before);
  return at < 0 ? question : question.slice(at + before.length).split("\n(")[0] ?? "";
}
