/** Owns the parts of options that go into the query of a write. */
import type { DeleteGroup, RemoveMember, WriteGroup } from './calls.ts';

type Asked = DeleteGroup & RemoveMember & WriteGroup;

/** The options with those of `Asked` moved into `query`; what is not given stays absent. */
export function withQuery<Options extends Asked>({
  force,
  detach,
  keep,
  ...rest
}: Options): Omit<Options, keyof Asked> & { readonly query?: Asked } {
  const query: Asked = {
    ...(keep !== undefined && { keep }),
    ...(force !== undefined && { force }),
    ...(detach !== undefined && { detach }),
  };
  return Object.keys(query).length === 0 ? rest : { ...rest, query };
}
