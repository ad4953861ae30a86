import type { KeyboardEvent, ReactNode } from "react";

interface Props {
  readonly submit: () => void;
  readonly isOpen: boolean;
  readonly refusal: string;
  readonly children: ReactNode;
}

/** Ctrl-Enter submits the form. Enter alone never does: it may be meant for something else. */
export function FormFrame({ submit, isOpen, refusal, children }: Props) {
  const onKeyDown = (event: KeyboardEvent<HTMLFormElement>): void => {
    if (event.key !== "Enter") return;
    const isForced = event.ctrlKey || event.metaKey;
    const isField = event.target instanceof HTMLInputElement || event.target instanceof HTMLSelectElement;
    if (isForced || isField) event.preventDefault();
    const button = event.currentTarget.querySelector<HTMLButtonElement>("button[type=submit]");
    if (isForced && !event.repeat && button && !button.disabled) submit();
  };
  return (
    <form
      noValidate
      className="answer-form"
      onKeyDown={onKeyDown}
      onSubmit={(event) => {
        event.preventDefault();
        submit();
      }}
    >
      {children}
      {!isOpen && (
        <p className="failed" role="alert">
          This was answered elsewhere, or the run has ended. Your text is still here.
        </p>
      )}
      {refusal && isOpen && (
        <p className="failed" role="alert">
          <bdi dir="auto">{refusal}</bdi>
        </p>
      )}
    </form>
  );
}
