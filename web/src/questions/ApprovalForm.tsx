import { useId, useMemo, useState } from "react";
import type { Question } from "../api/types";
import { isRecord } from "../api/events";
import { changesOf } from "../forms/changes";
import { draftOf, hasRoundedNumbers, readDraft, type Faults } from "../forms/draft";
import { FieldView } from "../forms/Fields";
import { argumentsShape } from "../forms/guessShape";
import { shapeOf } from "../forms/shape";
import { CodeBlock } from "../markdown/CodeBlock";
import { Changes } from "./Changes";
import { ApproveOrReject } from "./ApproveOrReject";
import { useDraft } from "../state/drafts";
import { HoldChoice, type Holds } from "./HoldChoice";
import { focusFault } from "./focusFault";
import { FormFrame } from "./FormFrame";
import { useAnswer } from "./useAnswer";

interface Props {
  readonly question: Question;
  readonly isOpen: boolean;
  readonly done: () => void;
}

/** Approves a tool call: its arguments as fields, and the changes to them. */
export function ApprovalForm({ question, isOpen, done }: Props) {
  const given = question.arguments;
  const canEdit = isRecord(given) && !hasRoundedNumbers(given);
  return canEdit ? (
    <EditableArguments question={question} given={given} isOpen={isOpen} done={done} />
  ) : (
    <ReadOnlyArguments question={question} isOpen={isOpen} done={done} />
  );
}

function EditableArguments({ question, given, isOpen, done }: Props & { given: Readonly<Record<string, unknown>> }) {
  const form = useId();
  const shape = useMemo(() => argumentsShape(shapeOf(question.parameters, "json"), given), [question.parameters, given]);
  const proposed = useMemo(() => draftOf(shape, given), [shape, given]);
  const [draft, setDraft] = useDraft(question.key, () => proposed);
  const [shown, setShown] = useState<Faults>(new Map());
  const [holds, setHolds] = useState<Holds>("yes");
  const { refusal, send } = useAnswer(question, done);
  const read = useMemo(() => readDraft(shape, draft, "arguments", given), [shape, draft, given]);
  const isTouched = JSON.stringify(draft) !== JSON.stringify(proposed);
  const changes = isTouched ? changesOf(given, read.value) : [];
  const approve = (): void => {
    const faults = isTouched ? read.faults : new Map<string, string>();
    setShown(faults);
    if (faults.size) focusFault(form, faults);
    else void send(changes.length ? JSON.stringify(read.value) : holds);
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
        <p className="quiet">The call has no arguments.</p>
      )}
      <Changes changes={changes} undo={() => setDraft(proposed)} />
      {!changes.length && <HoldChoice question={question} holds={holds} choose={setHolds} isDisabled={!isOpen} />}
      <ApproveOrReject of={question.key} approve={changes.length ? "Approve with changes" : "Approve"} send={send} isOpen={isOpen} />
    </FormFrame>
  );
}

/** Arguments that are not an object, or that a browser would round, can only be approved as they are. */
function ReadOnlyArguments({ question, isOpen, done }: Props) {
  const { refusal, send } = useAnswer(question, done);
  const [holds, setHolds] = useState<Holds>("yes");
  const given = question.arguments;
  return (
    <FormFrame submit={() => void send(holds)} isOpen={isOpen} refusal={refusal}>
      <p className="quiet">These arguments cannot be edited here.</p>
      <CodeBlock text={typeof given === "string" ? given : argumentsText(question)} />
      <HoldChoice question={question} holds={holds} choose={setHolds} isDisabled={!isOpen} />
      <ApproveOrReject of={question.key} send={send} isOpen={isOpen} />
    </FormFrame>
  );
}

/** The arguments as the question quotes them: numbers as the model wrote them. */
function argumentsText({ question, tool }: Question): string {
  const before = ` wants to use ${tool} with `;
  const at = question.indexOf(before);
  return at < 0 ? question : question.slice(at + before.length).split("\n(")[0] ?? "";
}
