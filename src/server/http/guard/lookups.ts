/** Owns what the guard asks of the database before a handler runs, shared by the requests that arrive together. */
import type { DeviceId, GroupId, OrganizationId, UserId } from '../../../policy/ids.ts';
import type { Authenticate, Presented } from '../../identity/authenticate.ts';
import type { DeviceRecord, GroupRecord } from '../../store/contract/records.ts';
import type { Seen } from '../../store/contract/access.ts';
import type { Membership } from '../../store/contract/members.ts';
import type { Store } from '../../store/contract/store.ts';
import { CoalescedReads } from './coalesce.ts';

export class Lookups {
  readonly store: Store;
  readonly #authenticate: Authenticate;
  readonly #principals = new CoalescedReads<Awaited<ReturnType<Authenticate>>>();
  readonly #memberships = new CoalescedReads<Membership | undefined>();
  readonly #groups = new CoalescedReads<Seen<GroupRecord>>();
  readonly #devices = new CoalescedReads<Seen<DeviceRecord>>();

  constructor(store: Store, authenticate: Authenticate) {
    this.store = store;
    this.#authenticate = authenticate;
  }

  authenticate(presented: Presented): ReturnType<Authenticate> {
    const { authorization, session, patient } = presented;
    const secret = authorization === undefined ? `cookie ${session ?? ''}` : `header ${authorization}`;
    const key = patient === true ? `patient ${secret}` : secret;
    return this.#principals.get(key, () => this.#authenticate(presented));
  }

  membership(org: OrganizationId, user: UserId, patient: boolean): Promise<Membership | undefined> {
    const key = patient ? `${org}/${user}/patient` : `${org}/${user}`;
    return this.#memberships.get(key, () => this.store.members.of(org, user, { patient }));
  }

  /** A group that the reader may see, and the reader's place in the organization. */
  group(org: OrganizationId, reader: UserId, id: GroupId): Promise<Seen<GroupRecord>> {
    return this.#groups.get(`${org}/${id}/${reader}`, () => this.store.access.group(org, reader, id));
  }

  device(org: OrganizationId, reader: UserId, id: DeviceId): Promise<Seen<DeviceRecord>> {
    return this.#devices.get(`${org}/${id}/${reader}`, () => this.store.access.device(org, reader, id));
  }
}
