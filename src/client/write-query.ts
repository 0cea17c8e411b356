/** Owns the parts of options that go into the query of a write of groups. */
import type { DeleteGroup, WriteGroup } from './calls.ts';

export const withDetach = (detach: boolean | undefined): { readonly query?: DeleteGroup } =>
  detach === undefined ? {} : { query: { detach } };

export const withForce = <Options extends WriteGroup>({
  force,
  ...rest
}: Options): Omit<Options, 'force'> & { query?: WriteGroup } => ({
  ...rest,
  ...(force !== undefined && { query: { force } }),
});
