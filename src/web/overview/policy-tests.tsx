/** Owns the policy tests on the overview: how many fail, and which. */
import { Link } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import type { Overview } from '../../api/enforcement/overview.ts';
import { WarnIcon } from '../components/icons.tsx';
import { grouped } from '../../client/words/number.ts';
import { plural } from '../model/rule-text.ts';
import { usePolicyTests } from '../state/policy-tests.ts';

const mostNamed = 3;

function Names(): ReactNode {
  const names = (usePolicyTests().data?.results ?? [])
    .filter(({ state }) => state === 'failing')
    .map(({ name }) => name);
  const more = names.length - mostNamed;
  return `${names.slice(0, mostNamed).join(', ')}${more > 0 ? ` and ${more} more` : ''}`;
}

export function PolicyTestsCard({ overview, org }: { readonly overview: Overview; readonly org: string }): ReactNode {
  const { policy_tests } = overview;
  if (policy_tests === undefined) return null;
  const { passing, failing, vacuous, not_judged = 0 } = policy_tests;
  const isGood = failing + vacuous + not_judged === 0;
  return (
    <section className="card stat" aria-label="Policy tests">
      <h2>Policy tests</h2>
      <Link
        className={`stat-figure plain-link ${isGood ? '' : failing > 0 ? 'figure-bad' : 'figure-warn'}`}
        to="/o/$org/tests"
        params={{ org }}
      >
        {isGood ? null : <WarnIcon size={20} />}
        <strong>
          {not_judged > 0
            ? `${grouped(not_judged)} not judged`
            : failing > 0
              ? `${grouped(failing)} failing`
              : vacuous > 0
                ? `${grouped(vacuous)} vacuous`
                : 'All pass'}
        </strong>
      </Link>
      <p className="small dimmed">
        {not_judged > 0 ? 'Judging them takes more work than they may.' : null}
        {failing > 0 ? <Names /> : null}
        {failing === 0 && vacuous > 0
          ? `${plural(vacuous, 'test')} ${vacuous === 1 ? 'matches' : 'match'} no devices and ${vacuous === 1 ? 'checks' : 'check'} nothing.`
          : null}
        {isGood ? `${plural(passing, 'test')} on every change.` : null}
      </p>
    </section>
  );
}
