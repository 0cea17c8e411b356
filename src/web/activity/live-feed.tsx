/** Owns the activity feed for members: what changed since the page was opened, as the change stream reports it. */
import { useParams } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import type { Change } from '../../client/cache.ts';
import { changeSentence, type Names, type Sentence } from '../../client/words/sentence.ts';
import { EventsIcon } from '../components/icons.tsx';
import { Empty } from '../components/placeholders.tsx';
import { Ago } from '../components/time.tsx';
import { deviceName } from '../state/live.ts';
import { useSnapshot } from '../state/organization.ts';
import { Words } from './entry.tsx';
import { useSentenceNames } from './names.ts';

/** Undefined for what only an agent cares about. */
function sentenceOfChange(change: Change, names: Names): Sentence | undefined {
  const noun = change.kind === 'device' ? 'device' : 'group';
  if (change.type === 'updated') return changeSentence(change.old, change.new, names);
  const record = change.type === 'deleted' ? change.old : change.new;
  const subject = 'group_name' in record ? record.group_name : deviceName(record);
  return { before: `${change.type === 'deleted' ? 'deleted' : 'added'} ${noun}`, subject, after: '' };
}

export function LiveFeed(): ReactNode {
  const { org } = useParams({ from: '/o/$org/activity' });
  const { feed } = useSnapshot();
  const names = useSentenceNames();
  const told = feed.flatMap(({ number, at, change }) => {
    const sentence = sentenceOfChange(change, names);
    return sentence === undefined ? [] : [{ number, at, id: change.id, sentence }];
  });
  return (
    <section className="card" aria-label="Activity">
      {told.length === 0 ? (
        <Empty icon={<EventsIcon size={40} />} title="Nothing has changed yet">
          Changes appear here as they happen. Only owners see who made them and what was there before.
        </Empty>
      ) : (
        <ul className="feed" aria-live="polite">
          {told.map(({ number, at, id, sentence }) => (
            <li key={number} className="deed">
              <span className="small dimmed feed-time">
                <Ago at={at} />
              </span>
              <p className="grow deed-words">
                <Words who={undefined} sentence={sentence} subjectId={id} org={org} />
              </p>
            </li>
          ))}
        </ul>
      )}
    </section>
  );
}
