import { BroadcastFeed } from "./BroadcastFeed";
import { DeadLetters } from "./DeadLetters";
import { DeadList } from "./DeadList";
import { DelayedQueue } from "./DelayedQueue";
import { EmitForm } from "./EmitForm";
import { Subscriptions } from "./Subscriptions";

export function Broadcasts() {
  return (
    <>
      <div className="head">
        <h1>Broadcasts</h1>
        <EmitForm />
      </div>
      <BroadcastFeed />
      <div className="columns">
        <Subscriptions />
        <DelayedQueue />
        <DeadList />
        <DeadLetters />
      </div>
    </>
  );
}
