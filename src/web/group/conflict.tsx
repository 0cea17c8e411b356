/**
 * Owns the conflict of two editors: their changes, my changes, and the choice. Rules have no order, so both can be
 * merged.
 */
import { Button } from '@mantine/core';
import type { ReactNode } from 'react';
import type { SecurityGroup } from '../../api/group.ts';
import { Dialog, DialogFoot } from '../components/dialog.tsx';
import { difference } from '../model/group-diff.ts';
import { contentOf, type Content } from '../model/draft.ts';
import { Changes } from './changes.tsx';

export interface EditConflict {
  readonly base: Content;
  readonly mine: Content;
  readonly theirs: SecurityGroup;
}

export function Merge({
  conflict,
  close,
  choose,
  busy,
}: {
  readonly conflict: EditConflict;
  readonly close: () => void;
  readonly choose: (choice: 'both' | 'mine' | 'theirs') => void;
  readonly busy: boolean;
}): ReactNode {
  return (
    <Dialog close={close} title="Someone else saved first" size="xl">
      <div className="stack">
        <p>Nothing is lost: your changes are still here. This is what each of you did since you began.</p>
        <div className="halves">
          <section aria-label="Their changes" className="stack tight">
            <h3>They saved</h3>
            <Changes of={difference(conflict.base, contentOf(conflict.theirs))} />
          </section>
          <section aria-label="Your changes" className="stack tight">
            <h3>You changed</h3>
            <Changes of={difference(conflict.base, conflict.mine)} />
          </section>
        </div>
        <p className="small dimmed">
          Keeping both puts your changes on top of theirs. Where both changed the name or the description, yours stands.
        </p>
        <DialogFoot cancel={() => choose('theirs')} cancelLabel="Take theirs, drop mine">
          <Button variant="default" onClick={() => choose('mine')} loading={busy}>
            Only mine
          </Button>
          <Button onClick={() => choose('both')} loading={busy} data-autofocus>
            Keep both
          </Button>
        </DialogFoot>
      </div>
    </Dialog>
  );
}
