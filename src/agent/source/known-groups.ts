/** Owns the groups of an organization that an agent knows: it reads each once, and knows which apply by label. */
import type { SecurityGroup } from '../../api/group.ts';
import type { Change } from '../../client/cache.ts';
import { isEnforced, mayApplyByLabel } from '../../policy/effective.ts';
import { NotUnderstood } from '../../policy/fleet/not-understood.ts';
import type { GroupId } from '../../policy/ids.ts';
import type { PolicyGroup } from '../../policy/rule.ts';
import { readApplication, understood, withoutRules, type Application } from './read-group.ts';

/** Groups whose rules were dropped. What is left shows which devices the group applies to. */
const outlines = new WeakSet<SecurityGroup>();

/** What is kept of a group that has no room: which devices it applies to, and that it is there. */
export function outlineOf(group: SecurityGroup): SecurityGroup {
  const application = readApplication(group);
  const appliesByLabel = !(application instanceof NotUnderstood) && mayApplyByLabel(application);
  const { id, org_id, revision } = group;
  const outline = appliesByLabel
    ? withoutRules(group)
    : { id, org_id, revision, group_name: '', group_description: '', created_at: '', updated_at: '' };
  outlines.add(outline);
  return outline;
}

/** Whether the group decides anything, with the change that is being tried or without it. */
const mayEnforce = (group: Application): boolean =>
  isEnforced(group) || (group.trial !== undefined && group.trial.before?.mode !== 'observe');

/** Whether the group enforces, with the change that is being tried and without it. */
export const isAlwaysEnforced = ({ mode, trial }: Pick<PolicyGroup, 'mode' | 'trial'>): boolean =>
  mode !== 'observe' && trial?.before?.mode !== 'observe';

export class KnownGroups {
  /** Records never change, so each is read once. */
  readonly #read = new WeakMap<SecurityGroup, PolicyGroup | NotUnderstood>();
  /** Groups that apply by label, guardrails among them. */
  readonly #applying = new Map<GroupId, Application>();
  /** Groups that may concern any device, because what they say of themselves is not understood. */
  readonly #unclear = new Map<GroupId, NotUnderstood>();
  #default: SecurityGroup | undefined;

  see(change: Change<'security-groups'>): void {
    this.#applying.delete(change.id);
    this.#unclear.delete(change.id);
    if (this.#default?.id === change.id) this.#default = undefined;
    if (change.type === 'deleted') return;
    if (change.new.is_default === true) this.#default = change.new;
    const application = readApplication(change.new);
    if (application instanceof NotUnderstood) this.#unclear.set(change.id, application);
    else if (mayApplyByLabel(application)) this.#applying.set(change.id, application);
  }

  get defaultGroup(): SecurityGroup | undefined {
    return this.#default;
  }

  /** Why no policy can be known; nothing where all groups say clearly to whom they apply. */
  get unclear(): NotUnderstood | undefined {
    const [first] = this.#unclear.values();
    return first;
  }

  /** The groups that apply to a device with these labels, with a change that is being tried or without it; guardrails among them. */
  applyingTo(labels: readonly string[]): readonly { readonly id: GroupId; readonly replacesDefault: boolean }[] {
    return [...this.#applying].flatMap(([id, application]) =>
      mayEnforce(application) && mayApplyByLabel(application, labels)
        ? [{ id, replacesDefault: application.guardrail === undefined && application.trial === undefined }]
        : [],
    );
  }

  /** Whether the record holds the group's rules. */
  isWhole(record: SecurityGroup | undefined): record is SecurityGroup {
    return record !== undefined && !outlines.has(record);
  }

  /** Whether the group is there, and its rules were dropped. */
  isDropped(record: SecurityGroup | undefined): boolean {
    return record !== undefined && outlines.has(record);
  }

  /** Reads the group from the record. Throws where the record is not understood. */
  read(record: SecurityGroup | undefined): PolicyGroup | undefined {
    if (record === undefined) return undefined;
    let group = this.#read.get(record);
    if (group === undefined) {
      group = understood(record);
      this.#read.set(record, group);
    }
    if (group instanceof NotUnderstood) throw group;
    return group;
  }
}
