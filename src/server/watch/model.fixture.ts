/** Owns a database in memory for tests of the hub: one organization, free writes, and reads with chosen delays and failures. */
import type { WatchKind } from '../../api/kinds.ts';
import { parseOrganizationId, parseUserId, type OrganizationId, type UserId } from '../../policy/ids.ts';
import type {
  EndedRight,
  Entry,
  EraStart,
  Heads,
  Hint,
  LogSource,
  Resumption,
  StatePage,
  StateQuery,
} from '../store/data/change-log.ts';
import { emptyHint } from '../store/postgres/hint-text.ts';
import { departed } from '../store/follow/frame.ts';

export const modelOrg: OrganizationId = parseOrganizationId('11111111-1111-4111-8111-111111111111');
export const userOf = (n: number): UserId => parseUserId(`22222222-2222-4222-8222-${String(n).padStart(12, '0')}`);

interface Resource {
  readonly kind: WatchKind;
  readonly owner: UserId | undefined;
  applied: boolean;
  leftAt: number;
  /** Of a device. */
  hostname: string;
}

export class ModelDatabase implements LogSource {
  readonly log: Entry[] = [];
  readonly resources = new Map<string, Resource>();
  exists = true;
  purged = 0;
  eras: readonly EraStart[] = [];
  readonly ended: EndedRight[] = [];
  /** The log is cut up to here, as by a compaction. */
  cut = 0;
  down = false;
  reads = { heads: 0, changes: 0, state: 0 };
  readonly #pause: () => Promise<void>;
  readonly #padding: string;
  readonly #listeners = new Set<(hint: Hint) => void>();
  #made = 0;

  /** `padding`: how many characters each record has besides. */
  constructor({ pause, padding = 0 }: { readonly pause?: () => Promise<void>; readonly padding?: number } = {}) {
    this.#pause = pause ?? (() => Promise.resolve());
    this.#padding = '.'.repeat(padding);
  }

  get head(): number {
    return this.log.length;
  }

  // Writing.

  create(kind: WatchKind, owner?: UserId): string {
    this.#made += 1;
    const id = `33333333-3333-4333-8333-${String(this.#made).padStart(12, '0')}`;
    this.resources.set(id, { kind, owner, applied: false, leftAt: 0, hostname: '' });
    this.#write(id, 'change');
    return id;
  }

  /** Of a device: in what it is, or only in where it is reached. */
  update(id: string, { endpointOnly = false }: { readonly endpointOnly?: boolean } = {}): void {
    this.#write(id, 'change', { endpointOnly });
  }

  /** A user's group enters or leaves everyone's view. */
  apply(id: string, applied: boolean): void {
    const resource = this.#resource(id);
    if (resource.applied === applied) return;
    resource.applied = applied;
    if (!applied) resource.leftAt = this.head + 1;
    this.#write(id, 'change');
  }

  delete(id: string): void {
    this.#write(id, 'delete');
    this.resources.delete(id);
  }

  /** The database starts again, and what it writes from now on is another era. `keep`: it lost what came after this revision. */
  restart(era: string, keep = this.head): void {
    this.log.splice(keep);
    this.eras = [...this.eras.filter(({ first }) => first <= keep), { era, first: keep + 1 }];
  }

  touchOrganization(): void {
    const revision = this.head + 1;
    const json = `{"revision":${revision}}`;
    this.log.push({
      revision,
      kind: 'organization',
      type: 'change',
      id: modelOrg,
      json,
      only_for: undefined,
      left_at: 0,
    });
  }

  hint(hint: Partial<Hint> = { organizations: [modelOrg] }): void {
    const whole: Hint = { ...emptyHint(), ...hint };
    for (const listener of this.#listeners) listener(whole);
  }

  /** The hint of a writer in the hub's own process: the entries that were logged after a revision, up to another. */
  tell(after: number, through = this.head): void {
    const entries = this.log.slice(after, through);
    this.hint({ organizations: [modelOrg], logged: [{ organization_id: modelOrg, entries }] });
  }

  #write(id: string, type: Entry['type'], { endpointOnly = false }: { readonly endpointOnly?: boolean } = {}): void {
    const resource = this.#resource(id);
    const { kind, owner, applied, leftAt } = resource;
    const revision = this.head + 1;
    const isIdentity = kind === 'device' && !endpointOnly;
    if (isIdentity) resource.hostname = `host ${revision}${this.#padding}`;
    const json = `{"id":"${id}","hostname":"${resource.hostname}","org_id":"${modelOrg}","text":"${'ä'.repeat(revision % 7)}${this.#padding}","revision":${revision}}`;
    const hidden = owner !== undefined && !applied;
    const identity = `{"id":"${id}","hostname":"${resource.hostname}","revision":${revision}}`;
    this.log.push({
      revision,
      kind,
      type,
      id,
      json,
      only_for: hidden ? owner : undefined,
      left_at: leftAt,
      era: this.eras.at(-1)?.era,
      ...(isIdentity && { identity }),
    });
  }

  #resource(id: string): Resource {
    const resource = this.resources.get(id);
    if (resource === undefined) throw new Error(`no resource ${id}`);
    return resource;
  }

  // Reading.

  /** As the database does, it may tell of an ending twice: here of the last one. */
  async heads(orgs: readonly OrganizationId[], endedSince?: string): Promise<Heads> {
    this.reads.heads += 1;
    await this.#visit();
    const head = { revision: this.head, version: `${this.purged} ${this.eras.at(-1)?.era ?? ''}` };
    const organizations = new Map(orgs.filter((org) => this.exists && org === modelOrg).map((org) => [org, head]));
    const ended = this.ended.slice(Math.max(0, Number(endedSince ?? 0) - 1));
    const answer = { organizations, ended, endedThrough: String(this.ended.length) };
    await this.#pause();
    return answer;
  }

  async resumption(): Promise<Resumption> {
    await this.#visit();
    const answer = { gaps: [{ kind: undefined, first: 0, last: this.purged - 1 }], eras: this.eras };
    await this.#pause();
    return answer;
  }

  async readChanges(_org: OrganizationId, after: number, limit: number): Promise<readonly Entry[] | undefined> {
    this.reads.changes += 1;
    await this.#visit();
    const answer = after < this.cut ? undefined : this.log.slice(after, after + limit);
    await this.#pause();
    return answer;
  }

  async readState(_org: OrganizationId, query: StateQuery): Promise<StatePage> {
    this.reads.state += 1;
    await this.#visit();
    const newest = new Map<string, Entry>();
    for (const entry of this.log) {
      const { kind, identity } = entry;
      if (kind === query.projection) newest.set(entry.id, entry);
      else if (identity !== undefined && query.projection === 'device-identity')
        newest.set(entry.id, { ...entry, json: identity });
    }
    const found: Entry[] = [];
    for (const entry of newest.values()) {
      if (entry.type === 'delete' && entry.revision <= this.purged) continue;
      if (entry.revision > query.after && (entry.type === 'change' || query.deletions)) found.push(entry);
      if (!query.deletions || entry.only_for === undefined || entry.left_at <= query.after) continue;
      const json = departed(modelOrg, entry.id, entry.left_at);
      const bare = { ...entry, revision: entry.left_at, type: 'delete', json, only_for: undefined } as const;
      found.push({ ...bare, hidden_from: entry.only_for });
    }
    found.sort((a, b) => a.revision - b.revision);
    let through: number | undefined;
    for (let index = 0, bytes = 0; index < found.length && through === undefined; index += 1) {
      const [entry, next] = [found[index], found[index + 1]];
      bytes += entry?.json.length ?? 0;
      if (bytes >= query.bytes && next !== undefined && next.revision !== entry?.revision) through = entry?.revision;
    }
    const entries = found.filter(({ revision }) => through === undefined || revision <= through);
    await this.#pause();
    return { entries, through };
  }

  onHint(listener: (hint: Hint) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  async #visit(): Promise<void> {
    await this.#pause();
    if (this.down) throw new Error('the database is down');
  }
}
