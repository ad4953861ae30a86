import { BroadcastFeed } from "./BroadcastFeed";
import { DeadWebhookList } from "./DeadWebhookList";
import { DeadBroadcastList } from "./DeadBroadcastList";
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
        <DeadBroadcastList />
        <DeadWebhookList />
      </div>
    </>
  );
}
