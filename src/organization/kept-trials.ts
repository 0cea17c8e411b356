/** Owns whether the end of a trial kept its change: then the record is what it was during the trial. */
import type { OrganizationDevice, OrganizationGroup } from './organization.ts';

const stateOf = ({ selectable: { rules, appliesTo, mode } }: OrganizationGroup): string =>
  JSON.stringify([rules.hash, appliesTo, mode]);

export const isGroupKept = (before: OrganizationGroup | undefined, after: OrganizationGroup | undefined): boolean =>
  before?.selectable.trial !== undefined &&
  after !== undefined &&
  after.selectable.trial === undefined &&
  stateOf(before) === stateOf(after);

export const isListKept = (before: OrganizationDevice | undefined, after: OrganizationDevice | undefined): boolean =>
  before?.trial !== undefined &&
  after !== undefined &&
  after.trial === undefined &&
  String(before.list) === String(after.list);
