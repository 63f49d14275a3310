import { forAll } from '../lib/shop';

export { default } from '../lib/view';
// Made once a minute by Next's incremental regeneration, which says s-maxage.
export const getStaticProps = () => ({
  revalidate: 60,
  props: forAll('News', Array(80).fill('Pears are ripe.')),
});
