/** Owns the page that shows and prints evidence: what was just made, or a file, also for people who are not signed in. It sends nothing. */
import { Button, FileButton } from '@mantine/core';
import { useMemo, useState, type ReactNode } from 'react';
import { PageTitle } from '../components/page.tsx';
import { evidenceInWords } from '../model/evidence.ts';
import { takeEvidence } from '../state/evidence.ts';

export function EvidencePage(): ReactNode {
  const [text, setText] = useState(takeEvidence);
  const shown = useMemo(() => evidenceInWords(text), [text]);
  return (
    <main className="page stack">
      <PageTitle>{shown?.title ?? 'Evidence'}</PageTitle>
      <div className="row no-print">
        <FileButton accept=".json" onChange={(file) => void file?.text().then(setText)}>
          {(button) => (
            <Button {...button} variant="default">
              Open a file
            </Button>
          )}
        </FileButton>
        {shown && <Button onClick={() => window.print()}>Print</Button>}
      </div>
      {text && !shown && <p className="note note-bad">This is no evidence that this version can read.</p>}
      <p className="note note-warn">
        This page does not check signatures. Before you rely on a file:{' '}
        <code>ringfence evidence verify FILE --key KEY</code>, with a key that the organization gave you by another way.
        The file stays in this browser.
      </p>
      {shown?.sections.map(({ title, sentences }, place) => (
        // oxlint-disable-next-line react/no-array-index-key -- what a file says never moves
        <section key={place} className="stack">
          <h2>{title}</h2>
          <ul>
            {sentences.map((sentence, index) => (
              // oxlint-disable-next-line react/no-array-index-key -- as above
              <li key={index}>{sentence}</li>
            ))}
          </ul>
        </section>
      ))}
    </main>
  );
}
