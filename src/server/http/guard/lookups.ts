/** Owns the database reads of the guard before a handler runs. Requests that arrive together share them. */
import type { DeviceId, GroupId, OrganizationId, UserId } from '../../../policy/ids.ts';
import { Coalescer, type CoalescedRead } from '../../scheduling/coalescer.ts';
import type { Authenticate, Caller, Presented } from '../../identity/authenticate.ts';
import type { DeviceRecord, GroupRecord } from '../../store/data/records.ts';
import type { Store } from '../../store/open.ts';
import type { GroupReader } from '../../store/data/groups.ts';
import type { Membership } from '../../store/data/members.ts';
import type { Subject, Visible } from '../../store/accounts/access.ts';

interface View<Id> {
  readonly org: OrganizationId;
  readonly user: UserId;
  readonly id: Id;
}

interface GroupView extends View<GroupId> {
  readonly reader: GroupReader;
}

const nameOf = <Id extends string>({ org, user, id }: View<Id>): string => `${org}/${id}/${user}`;

interface CallerLookup {
  readonly presented: Presented;
  readonly subject: Subject | undefined;
}

function nameOfLookup({ presented: { authorization, session }, subject }: CallerLookup): string {
  const credential = authorization === undefined ? `cookie ${session ?? ''}` : `header ${authorization}`;
  return subject === undefined ? credential : `${subject.org}/${subject.id} ${credential}`;
}

/** Reads that share nothing but their time: those for one key are one, and none waits for another. */
const each = <Key, Value>(
  nameOfKey: (key: Key) => string,
  look: (key: Key) => Promise<Value>,
): CoalescedRead<Key, Value> =>
  new Coalescer<Key, Value>({ read: (keys) => keys.map((key) => look(key)), nameOf: nameOfKey, concurrent: true })
    .immediate;

export class Lookups {
  readonly store: Store;
  readonly #members: Store['batched']['members'];
  readonly #callers: CoalescedRead<CallerLookup, Caller>;
  readonly #groups: CoalescedRead<GroupView, Visible<GroupRecord>>;
  readonly #devices: CoalescedRead<View<DeviceId>, Visible<DeviceRecord>>;

  constructor(store: Store, callers: Store['batched'], authenticate: Authenticate) {
    this.store = store;
    this.#members = callers.members;
    this.#groups = each(
      (view) => `${nameOf(view)}/${view.reader ?? ''}`,
      ({ org, id, ...caller }) => store.access.group(org, caller, id),
    );
    this.#devices = each(nameOf, ({ org, user, id }) => store.access.device(org, user, id));
    this.#callers = each(nameOfLookup, ({ presented, subject }) => authenticate(presented, subject));
  }

  /** Who asks, and often at once what it sees of the subject. */
  authenticate(presented: Presented, subject?: Subject): Promise<Caller> {
    return this.#callers.get({ presented, subject });
  }

  membership(org: OrganizationId, user: UserId): Promise<Membership | undefined> {
    return this.#members.of(org, user);
  }

  /** A group that the reader may see, and the user's place in the organization. */
  group(view: GroupView): Promise<Visible<GroupRecord>> {
    return this.#groups.get(view);
  }

  device(org: OrganizationId, user: UserId, id: DeviceId): Promise<Visible<DeviceRecord>> {
    return this.#devices.get({ org, user, id });
  }
}
