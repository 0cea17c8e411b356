/** Owns the question after a refused write: which devices it would leave with the default group, or which policy tests it would break. */
import { Button } from '@mantine/core';
import type { ReactNode } from 'react';
import type { RingfenceError } from '../../client/error.ts';
import { dangerous, Dialog, DialogFoot } from '../components/dialog.tsx';
import { FailingTests } from '../policy-test/test-results.tsx';
import { plural } from '../../client/words/number.ts';
import { deviceName, useRights, useSnapshot } from '../state/organization.ts';
import type { RefusalQuestion } from '../state/write.tsx';

function OpenedDevices({ refusal }: { readonly refusal: RingfenceError }): ReactNode {
  const { devices, defaultGroup } = useSnapshot();
  const count = refusal.devices.length + refusal.moreDevices;
  const named = refusal.devices.map((id) => {
    const device = devices.find((one) => one.id === id);
    return { id, name: device === undefined ? id : deviceName(device) };
  });
  return (
    <>
      <p>
        After this change no other group applies to {count === 1 ? 'this device' : 'these devices'}, so the default
        group {defaultGroup?.group_name} does. It admits everything unless somebody changed it.
      </p>
      <ul className="rows pick-list scrolls pick-scroll" aria-label="Devices that would open">
        {named.map(({ id, name }) => (
          <li key={id}>
            <strong className="clip">{name}</strong>
          </li>
        ))}
      </ul>
      {refusal.moreDevices === 0 ? null : <p>And {plural(refusal.moreDevices, 'more device')}.</p>}
    </>
  );
}

function BrokenTests({ refusal, mayInsist }: { readonly refusal: RingfenceError; readonly mayInsist: boolean }) {
  const { tests, moreTests } = refusal;
  return (
    <>
      <p>Nothing was saved, because this change breaks what policy tests demand.</p>
      <FailingTests
        title={`${plural(tests.length + moreTests, 'policy test')} would fail`}
        results={tests}
        more={moreTests}
      />
      <p className="small dimmed">
        {mayInsist
          ? 'If you save anyway, the tests fail until someone changes the rules or the tests. The audit shows that you skipped them.'
          : 'Change the rules so that the tests pass, or ask an owner.'}
      </p>
    </>
  );
}

export function RefusalDialog({ question }: { readonly question: RefusalQuestion }): ReactNode {
  const { governs } = useRights();
  const { refusal, answer } = question;
  const isTests = refusal.code === 'policy_test_failed';
  const count = refusal.devices.length + refusal.moreDevices;
  const title = isTests ? 'Not saved: policy tests' : `Leave ${plural(count, 'device')} with the default group?`;
  return (
    <Dialog close={() => answer(false)} title={title} size={isTests ? 'lg' : 'md'}>
      <div className="stack">
        {isTests ? <BrokenTests refusal={refusal} mayInsist={governs} /> : <OpenedDevices refusal={refusal} />}
        <DialogFoot cancel={() => answer(false)} focusCancel>
          {isTests && !governs ? null : (
            <Button {...dangerous} onClick={() => answer(true)}>
              {isTests ? 'Save anyway' : 'Change it anyway'}
            </Button>
          )}
        </DialogFoot>
      </div>
    </Dialog>
  );
}
