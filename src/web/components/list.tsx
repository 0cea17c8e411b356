/** Owns lists of a few records, such as keys, tokens and members: their state while they load, and rows of one shape. */
import type { ReactNode } from 'react';
import { ListState } from './placeholders.tsx';

/** A list in a card: it loads, is empty, or has rows. */
export function List<Entry>({
  query,
  loading,
  entries,
  empty,
  row,
}: {
  readonly query: Parameters<typeof ListState>[0]['query'];
  /** What a person reads while it loads. */
  readonly loading: string;
  readonly entries: readonly Entry[] | undefined;
  readonly empty: ReactNode;
  readonly row: (entry: Entry) => ReactNode;
}): ReactNode {
  return (
    <>
      <ListState query={query} loading={loading} />
      {query.data === undefined ? null : entries?.length === 0 ? empty : <ul className="rows">{entries?.map(row)}</ul>}
    </>
  );
}

/** What something is called, with its marks, what is known of it, and what can be done with it. */
export function ListRow({
  mark,
  name,
  tags,
  about,
  actions,
  children,
}: {
  /** What stands before the name. */
  readonly mark?: ReactNode;
  readonly name: ReactNode;
  readonly tags?: ReactNode;
  readonly about?: ReactNode;
  readonly actions?: ReactNode;
  readonly children?: ReactNode;
}): ReactNode {
  return (
    <li className="list-entry">
      {mark}
      <div className="grow stack tight">
        <p className="row">
          <strong>{name}</strong>
          {tags}
        </p>
        {about === undefined ? null : <p className="small dimmed">{about}</p>}
        {children}
      </div>
      {actions === undefined ? null : <div className="row">{actions}</div>}
    </li>
  );
}
