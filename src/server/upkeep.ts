/** Owns the upkeep of a server: every five minutes it adds up what devices observed, and removes what is no longer kept. */
import type { Store } from './store/contract/store.ts';
import { webhookSettings } from './webhooks/service.ts';

export interface UpkeepOptions {
  readonly store: Store;
  readonly onWarning: (message: string, cause: unknown) => void;
}

const everyMs = 300_000;

/** Gives what ends it. */
export function startUpkeep({ store, onWarning }: UpkeepOptions): () => void {
  const forget = (what: string, work: Promise<unknown>): void =>
    void work.catch((cause: unknown) => onWarning(`old ${what} not forgotten`, cause));
  const timer = setInterval(() => {
    forget('changes were', store.log.compact());
    forget('states were', store.history.forget());
    forget('change sets were', store.changeSets.forget());
    forget('trials were', store.trials.forget());
    forget('idempotency keys were', store.idempotencyKeys.forget());
    forget('deliveries were', store.webhooks.forget(webhookSettings.keepMs));
    forget('audit entries were', store.audit.forget());
    forget('sessions were', store.sessions.forget());
    forget('presence was', store.presence.forget());
    forget('observed traffic was', store.flows.forget());
    forget('the usage of rules was', store.ruleUsage.forget());
  }, everyMs).unref();
  return () => clearInterval(timer);
}
