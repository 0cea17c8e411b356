/** Owns the port through which the hub reads the database: the reading half of the store's change log. */
import type { ChangeLog } from '../store/log/change-log.ts';

export type Source = Pick<ChangeLog, 'heads' | 'resumption' | 'readChanges' | 'readState' | 'onHint'>;
