/** Owns what settings of the organization mean for rules, and the way back from rules to settings. */
import type { RecorderOptions, RefuseWith } from '../../nft/compile/recorder.ts';
import type { Installed } from '../../nft/read/listing.ts';
import { readRecordSetName, type Observe } from '../../nft/recording.ts';

/** What is to be recorded, and what refused packets get, in the words of the wire. */
export interface ObserveSettings {
  readonly observe: Observe;
  readonly refuse_with: RefuseWith;
}

/** What makes a difference to rules. */
export const recorderSettings = ({ observe, refuse_with }: ObserveSettings): RecorderOptions => ({
  ...((observe === 'refused' || observe === 'all') && { observe }),
  ...(refuse_with === 'reject' && { refuseWith: refuse_with }),
});

/** What the rules in the kernel record and answer: a start goes on with that until the server has been asked. */
export function installedSettings({ chains, objects }: Installed): RecorderOptions {
  const verdicts = new Set(objects.map(({ name }) => readRecordSetName(name)?.verdict));
  const observe = verdicts.has('admitted') ? 'all' : verdicts.has('refused') ? 'refused' : undefined;
  const isAnswering = [...chains.keys()].some((name) => name.startsWith('answer-'));
  return { ...(observe && { observe }), ...(isAnswering && { refuseWith: 'reject' }) };
}
