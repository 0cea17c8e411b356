/**
 * Owns the border behind which the client commands do their work. Commands, options and help are one file of the built
 * program, and all that lies behind this border is another: opening a file costs more than reading its lines.
 */
export * as account from './account/run.ts';
export * as apply from './policy/apply.ts';
export * as audit from './audit/run.ts';
export * as device from './device/run.ts';
export * as explain from './policy/explain.ts';
export * as group from './group/run.ts';
export * as groupEdit from './group/edit.ts';
export * as key from './key/run.ts';
export * as member from './member/run.ts';
export * as organization from './organization/run.ts';
export * as policy from './policy/nft.ts';
export * as token from './token/run.ts';
export * as watch from './watch/run.ts';
export { printNames } from './completion/names.ts';
export { completionScript } from './completion/script.ts';
export { writeReference } from './reference/markdown.ts';
export { runAction } from './session/run.ts';
