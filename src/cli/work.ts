/**
 * Owns the border behind which the client commands do their work. Commands, options and help are one file of the built
 * program, and all that lies behind this border is another: opening a file costs more than reading its lines.
 */
export * as account from './actions/account.ts';
export * as apply from './actions/apply.ts';
export * as audit from './actions/audit.ts';
export * as device from './actions/device.ts';
export * as explain from './actions/explain.ts';
export * as group from './actions/group.ts';
export * as groupEdit from './actions/group-edit.ts';
export * as key from './actions/key.ts';
export * as member from './actions/member.ts';
export * as organization from './actions/organization.ts';
export * as policy from './actions/policy.ts';
export * as token from './actions/token.ts';
export * as watch from './actions/watch.ts';
export { printNames } from './actions/names.ts';
export { completionScript } from './completion.ts';
export { writeReference } from './reference.ts';
export { runAction } from './run.ts';
