/** Owns what one log entry shows, in which projection and to which readers: everyone, its owner only, or everyone but its owner. */
import type { WatchKind } from '../../../api/kinds.ts';
import type { WatchItem } from '../../../api/watch.ts';
import type { OrganizationId, UserId } from '../../../policy/ids.ts';
import { jsonWithoutDescriptions } from '../../../policy/rule-identity/descriptions.ts';
import type { Entry, Projection } from '../data/change-log.ts';

/** One bit a projection, so that a set of them is a small number. */
export type Mask = number;

const bits: { readonly [One in Projection]: Mask } = { device: 1, 'security-groups': 2, 'device-identity': 4 };

export const maskOf = (projections: readonly Projection[]): Mask =>
  projections.reduce((mask, projection) => mask | bits[projection], 0);

/** What a watched item is to be shown. */
export const projectionOf = ({ kind, view }: Pick<WatchItem, 'kind' | 'view'>): Projection =>
  kind === 'device' && view === 'identity' ? 'device-identity' : kind;

/** The kind whose resources a projection shows. */
export const kindOf = (projection: Projection): WatchKind => (projection === 'device-identity' ? 'device' : projection);

export interface Frame {
  readonly revision: number;
  readonly kind: WatchKind;
  readonly mask: Mask;
  readonly type: 'change' | 'delete';
  readonly id: string;
  readonly json: string;
  /** The record for agents, where it is not the same: without the descriptions of its rules. */
  readonly agentJson?: string | undefined;
  /** Undefined: for everyone. */
  readonly owner: UserId | undefined;
  /** With an owner: true for the owner only, false for everyone else. */
  readonly forOwner: boolean;
}

export const visible = (frame: Frame, reader: UserId | undefined): boolean =>
  frame.owner === undefined || (frame.owner === reader) === frame.forOwner;

/** A group that only its owner sees has two states: the owner's current one, and what others last saw. */
export const keyOf = (frame: Frame): string => (frame.forOwner ? `~${frame.id}` : frame.id);

/** What a frame puts out of date. One of a group for everyone ends both of its states. */
export const replacedBy = (frame: Frame): readonly string[] =>
  frame.owner === undefined && frame.kind === 'security-groups' ? [frame.id, `~${frame.id}`] : [keyOf(frame)];

/** What a reader may know of a group that left its view (reference 6). */
export const departed = (org: OrganizationId, id: string, revision: number): string =>
  `{"id":"${id}","org_id":"${org}","revision":${revision}}`;

/**
 * The frames of one entry: none, one, or two: when a group leaves everyone's view but its owner's, and when a device changes in what it is, so that
 * each of its projections has a frame of its own.
 */
export function framesOf(org: OrganizationId, entry: Entry): readonly Frame[] {
  const frames = fullFrames(org, entry);
  const { identity } = entry;
  const [whole] = frames;
  if (identity === undefined || whole === undefined) return frames;
  return [whole, { ...whole, mask: bits['device-identity'], json: identity }];
}

/** The frames of one entry of the state, as it was read for this projection. */
export const stateFramesOf = (org: OrganizationId, entry: Entry, projection: Projection): readonly Frame[] =>
  fullFrames(org, { ...entry, left_at: 0 }).map((frame) => ({ ...frame, mask: bits[projection] }));

function fullFrames(org: OrganizationId, entry: Entry): readonly Frame[] {
  if (entry.kind === 'organization') return [];
  const { revision, kind, type, id, json } = entry;
  const agentJson = kind === 'security-groups' ? jsonWithoutDescriptions(json) : undefined;
  const mask = bits[kind];
  if (entry.hidden_from !== undefined) {
    return [{ revision, kind, mask, type, id, json, owner: entry.hidden_from, forOwner: false }];
  }
  const own: Frame = {
    revision,
    kind,
    mask,
    type,
    id,
    json,
    ...(agentJson !== undefined && { agentJson }),
    owner: entry.only_for,
    forOwner: entry.only_for !== undefined,
  };
  if (entry.only_for === undefined || entry.left_at !== revision) return [own];
  const bare = departed(org, id, revision);
  return [{ revision, kind, mask, type: 'delete', id, json: bare, owner: entry.only_for, forOwner: false }, own];
}
