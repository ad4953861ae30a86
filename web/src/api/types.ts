/** The server's types, under the names that the page uses. */
import type { components } from "./schema";

type Shapes = components["schemas"];

export type Run = Shapes["RunView"];
export type RunDetail = Shapes["RunDetail"];
export type RunPage = Shapes["RunPage"];
export type AgentModel = Shapes["AgentModel"];
export type Status = Run["status"];
export type Question = Shapes["Question"];
export type QuestionPage = Shapes["QuestionPage"];
export type CrewSummary = Shapes["CrewView"];
export type CrewList = Shapes["CrewList"];
export type CrewDetail = Shapes["CrewDetail"];
export type Graph = Shapes["Graph"];
export type GraphNode = Shapes["GraphNode"];
export type GraphEdge = Shapes["GraphEdge"];
export type Problems = Shapes["Problems"];
export type Explanation = Shapes["Explanation"];
export type Session = Shapes["Session"];
export type Problem = Shapes["Problem"];
export type UsageReport = Shapes["UsageReport"];
export type Broadcast = Shapes["BroadcastView"];
export type BroadcastPage = Shapes["BroadcastPage"];
export type SubscriptionPage = Shapes["SubscriptionPage"];
export type DelayedSignal = Shapes["DelayedView"];
export type DelayedPage = Shapes["DelayedPage"];
export type DeadBroadcasts = Shapes["DeadBroadcasts"];
export type DeadLetter = Shapes["DeadLetter"];
export type DeadLetters = Shapes["DeadLetters"];
export type UsageTotals = Shapes["Used"];
export type CacheSavings = Shapes["Savings"];

export const STATUSES: readonly Status[] = ["running", "paused", "completed", "failed", "stopped", "cancelled"];
