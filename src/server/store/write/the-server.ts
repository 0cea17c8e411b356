/** Owns the name of who made a state that no user asked for, such as the end of a trial whose time was over. No user has this id. */
import { parseUserId } from '../../../policy/ids.ts';

export const theServer = parseUserId('00000000-0000-0000-0000-000000000000');
