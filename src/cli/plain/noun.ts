/** Owns what all plain nouns do alike: list records in columns, show one of them as fields, delete one. */
import type { Client } from '../../client/http.ts';
import type { CommandSpec, PlainCommand } from '../command-line/client-command.ts';
import { find, titleOf, type Resource } from '../lookup/resource.ts';
import type { ListForm } from '../terminal/output.ts';
import type { Column, Layout } from '../terminal/table.ts';

/** What a noun is about. */
interface Records<T> {
  readonly resource: Resource<T>;
  readonly form: ListForm<T>;
}

type Words = Pick<CommandSpec, 'usage' | 'summary' | 'examples'>;

export const listOf = <T>({ resource, form }: Records<T>, words: Words): PlainCommand => ({
  ...words,
  run: async (session) => session.printList(await resource.all(session), form),
});

/** The columns of its list as fields, without those that are empty. */
export const fieldsOf = <T>(
  { columns }: { readonly columns: (layout: Layout) => readonly Column<T>[] },
  record: T,
  layout: Layout,
): readonly (readonly [string, string])[] =>
  columns({ ...layout, wide: true }).flatMap(({ head, text }) =>
    text(record) === '' ? [] : [[head.toLowerCase(), text(record)]],
  );

export const showOf = <T extends object>({ resource, form }: Records<T>, words: Words): PlainCommand => ({
  ...words,
  async run(session, { args: [text = ''] }) {
    const record: T = await find(session, resource, text);
    await session.printRecord(record, (layout) => fieldsOf(form, record, layout), resource.naming(record).id);
  },
});

interface Deletion<T> extends Words {
  readonly verb: 'Delete' | 'Revoke';
  /** What goes along, in the question. */
  readonly along?: string;
  readonly call: (client: Client, record: T, dryRun: { readonly dry_run?: true }) => Promise<T>;
}

/** Asks, and does what cannot be undone: `Revoke token ci?`, `Revoked token ci.` */
export const deletionOf = <T extends object>(
  { resource }: Pick<Records<T>, 'resource'>,
  { verb, along = '', call, ...words }: Deletion<T>,
): PlainCommand => ({
  ...words,
  dryRun: true,
  destructive: true,
  async run(session, { args: [text = ''] }) {
    const found = await find(session, resource, text);
    const client = await session.client();
    const { what, naming } = resource;
    const title = titleOf(resource, found);
    if (session.values.dryRun === true)
      return session.printRecord(
        await call(client, found, { dry_run: true }),
        `Would ${verb.toLowerCase()} ${what} ${title}${along}. Nothing was written.`,
        naming(found).id,
      );
    if (!(await session.confirm(`${verb} ${what} ${title}${along}?`))) return session.say('Nothing was changed.');
    const gone = await call(client, found, {});
    const { id } = naming(gone);
    return session.printRecord(gone, `${verb}d ${what} ${title}${title === id ? '' : ` (${id})`}.`, id);
  },
});
