/** Owns how far a change has come: on how many devices it is in force, and how the others are. */
import type { ReactNode } from 'react';
import type { Convergence } from '../../api/enforcement/convergence.ts';
import { inForceTitles, mostUrgentFirst, type InForce } from '../../api/enforcement/in-force.ts';
import { Tag } from '../components/tag.tsx';
import { grouped } from '../../client/words/number.ts';
import { plural } from '../model/rule-text.ts';
import { stateTones } from './device-state.tsx';

type Counts = Omit<Convergence, 'revision' | 'pending'>;
const countOf = (counts: Counts, word: InForce): number => counts[word === 'yes' ? 'in_force' : word];

export function InForceCount({ counts }: { readonly counts: Counts }): ReactNode {
  const rest = mostUrgentFirst.filter((word) => word !== 'yes' && countOf(counts, word) > 0);
  return (
    <span className="tags">
      <span>
        In force on {grouped(counts.in_force)} of {plural(counts.devices, 'device')}
      </span>
      {rest.map((word) => (
        <Tag key={word} tone={stateTones[word]}>
          {grouped(countOf(counts, word))} {inForceTitles[word]}
        </Tag>
      ))}
    </span>
  );
}
