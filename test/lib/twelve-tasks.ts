/** Owns the twelve most frequent tasks, and how many steps each may take: clicks or choices on the pages, and commands. */
export const twelveTasks: readonly {
  readonly task: string;
  readonly pages: number;
  readonly commands: readonly string[];
}[] = [
  { task: 'allow PostgreSQL', pages: 6, commands: ['group allow database in postgres from label:app'] },
  { task: 'find out why one device cannot reach another', pages: 4, commands: ['explain app-1 db-1 ssh'] },
  { task: 'see which devices lack the last change', pages: 2, commands: ['status'] },
  { task: 'undo a mistake, later', pages: 4, commands: ['group history database', 'group restore database 120 --yes'] },
  { task: 'remove a colleague', pages: 3, commands: ['member remove kim --yes'] },
  { task: 'let a device join', pages: 3, commands: ['key create'] },
  { task: 'add a person before the first sign-in', pages: 2, commands: ['member add lee@example.org'] },
  { task: 'rename a device', pages: 4, commands: ['device rename app-1 app-2'] },
  { task: 'cut off a device', pages: 4, commands: ['device isolate db-1 --reason break-in'] },
  { task: 'see everything that a device may reach', pages: 2, commands: ['explain --from app-2'] },
  {
    task: 'give access that ends by itself',
    pages: 8,
    commands: ['group allow database in ssh from label:app --for 2h'],
  },
  { task: 'see who changed a group', pages: 2, commands: ['log --group database'] },
];
