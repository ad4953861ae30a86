import type { ComponentProps } from "react";
import { lacking, useMay, type Scope } from "../state/session";

/** A button that the server would refuse is not offered: it cannot be pressed, and says why. */
export function Act({ needs, disabled, title, ...rest }: { needs: Scope } & ComponentProps<"button">) {
  const isAllowed = useMay(needs);
  return <button type="button" {...rest} disabled={disabled || !isAllowed} title={isAllowed ? title : lacking(needs)} />;
}
