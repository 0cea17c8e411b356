/** Makes a fresh clone ready for `npm start`, `npm test` and `npm run bench`. */
