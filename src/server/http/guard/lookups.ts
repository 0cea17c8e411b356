/** Owns what the guard asks of the database before a handler runs, shared by the requests that arrive together. */
import type { DeviceId, GroupId, OrganizationId, UserId } from '../../../policy/ids.ts';
import { Coalescer, type Ask } from '../../coalesce.ts';
import type { Authenticate, Presented } from '../../identity/authenticate.ts';
import type { DeviceRecord, GroupRecord } from '../../store/contract/records.ts';
import type { CallerLookups } from '../../store/contract/caller-lookups.ts';
import type { GroupReader } from '../../store/contract/groups.ts';
import type { Membership } from '../../store/contract/members.ts';
import type { Seen } from '../../store/contract/access.ts';
import type { Store } from '../../store/contract/store.ts';

interface Sight<Id> {
  readonly org: OrganizationId;
  readonly user: UserId;
  readonly id: Id;
}

interface GroupSight extends Sight<GroupId> {
  readonly reader: GroupReader;
}

const nameOf = <Id extends string>({ org, user, id }: Sight<Id>): string => `${org}/${id}/${user}`;

/** Reads that share nothing but their time: those for one key are one, and none waits for another. */
const each = <Key, Answer>(nameOfKey: (key: Key) => string, look: (key: Key) => Promise<Answer>): Ask<Key, Answer> =>
  new Coalescer<Key, Answer>({ read: (keys) => keys.map((key) => look(key)), nameOf: nameOfKey, concurrent: true })
    .prompt;

export class Lookups {
  readonly store: Store;
  readonly #callers: CallerLookups;
  readonly #principals: Ask<Presented, Awaited<ReturnType<Authenticate>>>;
  readonly #groups: Ask<GroupSight, Seen<GroupRecord>>;
  readonly #devices: Ask<Sight<DeviceId>, Seen<DeviceRecord>>;

  constructor(store: Store, callers: CallerLookups, authenticate: Authenticate) {
    this.store = store;
    this.#callers = callers;
    this.#groups = each(
      (sight) => `${nameOf(sight)}/${sight.reader ?? ''}`,
      ({ org, id, ...caller }) => store.access.group(org, caller, id),
    );
    this.#devices = each(nameOf, ({ org, user, id }) => store.access.device(org, user, id));
    this.#principals = each(
      ({ authorization, session }) =>
        authorization === undefined ? `cookie ${session ?? ''}` : `header ${authorization}`,
      authenticate,
    );
  }

  authenticate(presented: Presented): ReturnType<Authenticate> {
    return this.#principals.get(presented);
  }

  membership(org: OrganizationId, user: UserId): Promise<Membership | undefined> {
    return this.#callers.members.of(org, user);
  }

  /** A group that the reader may see, and the user's place in the organization. */
  group(sight: GroupSight): Promise<Seen<GroupRecord>> {
    return this.#groups.get(sight);
  }

  device(org: OrganizationId, user: UserId, id: DeviceId): Promise<Seen<DeviceRecord>> {
    return this.#devices.get({ org, user, id });
  }
}
