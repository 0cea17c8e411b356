/** Owns what the guard asks of the database before a handler runs, shared by the requests that arrive together. */
import type { GroupId, OrganizationId, UserId } from '../../policy/ids.ts';
import type { Authenticate } from '../identity/authenticate.ts';
import type { GroupRecord, Stored } from '../store/records.ts';
import type { Membership, Store } from '../store/store.ts';
import { Turn } from './turn.ts';

export class Lookups {
  readonly store: Store;
  readonly #authenticate: Authenticate;
  readonly #principals = new Turn<Awaited<ReturnType<Authenticate>>>();
  readonly #memberships = new Turn<Membership | undefined>();
  readonly #groups = new Turn<Stored<GroupRecord>>();

  constructor(store: Store, authenticate: Authenticate) {
    this.store = store;
    this.#authenticate = authenticate;
  }

  authenticate(authorization: string | undefined): ReturnType<Authenticate> {
    return this.#principals.get(authorization ?? '', () => this.#authenticate(authorization));
  }

  membership(org: OrganizationId, user: UserId): Promise<Membership | undefined> {
    return this.#memberships.get(`${org}/${user}`, () => this.store.members.of(org, user));
  }

  group(org: OrganizationId, id: GroupId, reader: UserId): Promise<Stored<GroupRecord>> {
    return this.#groups.get(`${org}/${id}/${reader}`, () => this.store.groups.get(org, id, { reader }));
  }
}
