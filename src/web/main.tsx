/** Starts the page in the browser: style sheets first, then the application, piece by piece, so that no task is long. */
import './theme/mantine.css';
import './theme/page.css';
import './theme/components.css';
import './theme/variables.css';
import { startTransition } from 'react';
import './shell/palette-key.ts';
import { App } from './app.tsx';

// In a file of its own, React runs in a task of its own; as a transition, the page is drawn in slices.
void import('react-dom/client').then(({ createRoot }) => {
  const root = document.getElementById('root');
  if (root !== null) startTransition(() => createRoot(root).render(<App />));
});
