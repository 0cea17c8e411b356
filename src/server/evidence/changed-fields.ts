/** Owns the fields in which two states of a record differ, as evidence shows a change. */

/** What moves with every write, or never. */
const bookkeeping = new Set(['revision', 'created_at', 'updated_at', 'id', 'org_id', 'organization_id']);

type Fields = Readonly<Record<string, unknown>>;

/** The fields that differ; all of them where one of the states is absent. */
export function changedFields(
  before: object | undefined,
  after: object | undefined,
): { readonly before?: object; readonly after?: object } {
  const [old, fresh] = [before, after] as readonly (Fields | undefined)[];
  const names = [...new Set([...Object.keys(old ?? {}), ...Object.keys(fresh ?? {})])].filter(
    (name) => !bookkeeping.has(name) && JSON.stringify(old?.[name]) !== JSON.stringify(fresh?.[name]),
  );
  const pick = (from: Fields): object =>
    Object.fromEntries(names.flatMap((name) => (from[name] === undefined ? [] : [[name, from[name]]])));
  return { ...(old && { before: pick(old) }), ...(fresh && { after: pick(fresh) }) };
}
