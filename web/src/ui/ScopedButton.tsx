import type { ComponentProps } from "react";
import { missingScopeMessage, useHasScope, type Scope } from "../state/auth";

/** A button that is disabled, with the reason, if the key lacks the scope. */
export function ScopedButton({ needs, disabled, title, ...rest }: { needs: Scope } & ComponentProps<"button">) {
  const isAllowed = useHasScope(needs);
  return <button type="button" {...rest} disabled={disabled || !isAllowed} title={isAllowed ? title : missingScopeMessage(needs)} />;
}
