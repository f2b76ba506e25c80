# SPDX-License-Identifier: Apache-2.0
"""Stories about the world of world.py, with an exact number of sentences.

A plot is a list of beats in the order of telling. A beat has a rank (how much the story needs it) and
several wordings. A story of n sentences is the n beats of the lowest rank, told in order, so that a story of two
sentences still begins and ends and one of twelve has everything. A long story tells two or three plots of the
same people with beats of the day between them.

Slots in a wording: {N} the hero's name, {he} {him} {his}, {F} the friend (introduced on first use), {fhe} {fhis},
{O} the object ("a red ball", later "the ball"), {P} the place with its preposition, {Pn} the place, {T} something
found there, {food}.
"""
import re

from words import article, capital
from world import (ANIMALS, BOYS, COLOURS, FOODS, GIRLS, MASS_FOOD, OBJECTS, PEOPLE, PET_NAMES, PLACES, WEATHER)

PRONOUNS = {"he": ("he", "him", "his"), "she": ("she", "her", "her"), "it": ("it", "it", "its")}


class Cast:
    """Who and what one story is about, and what the reader has been told already."""

    def __init__(self, rng, noun=None, name=None, place=None, thing=None, weather=None):
        self.rng = rng
        self.noun = noun or rng.choice(list(ANIMALS) + list(PEOPLE) * 2)
        self.he = self.pronoun_of(self.noun)
        self.name = name or self.name_for(self.noun, self.he)
        self.friend_noun = rng.choice([n for n in list(ANIMALS) + list(PEOPLE) if n != self.noun])
        self.friend_he = self.pronoun_of(self.friend_noun)
        self.friend = self.name_for(self.friend_noun, self.friend_he)
        self.place = place or rng.choice(list(PLACES))
        self.weather = weather
        self.new_object(thing)
        self.friend_known = False

    def new_object(self, thing=None):
        rng = self.rng
        self.object = thing or rng.choice(list(OBJECTS))
        self.object_colour = rng.choice(COLOURS)
        self.object_known = False
        self.food = rng.choice(list(FOODS))

    def new_friend(self):
        self.friend_noun = self.rng.choice(
            [n for n in list(ANIMALS) + list(PEOPLE) if n not in (self.noun, self.friend_noun)])
        self.friend_he = self.pronoun_of(self.friend_noun)
        self.friend = self.name_for(self.friend_noun, self.friend_he)
        self.friend_known = False

    def new_place(self):
        self.place = self.rng.choice([p for p in PLACES if p != self.place])

    def pronoun_of(self, noun):
        return PEOPLE[noun][0] if noun in PEOPLE else self.rng.choice(["he", "she"])

    def name_for(self, noun, he):
        pool = (BOYS if he == "he" else GIRLS) if noun in PEOPLE else PET_NAMES
        return self.rng.choice([n for n in pool if n != getattr(self, "name", None)])

    def some_food(self):
        return ("some " + self.food) if self.food in MASS_FOOD else article(self.food)

    def slot(self, key):
        he, him, his = PRONOUNS[self.he]
        fhe, fhim, fhis = PRONOUNS[self.friend_he]
        preposition, things, _ = PLACES[self.place]
        if key == "F":
            if self.friend_known:
                return self.friend
            self.friend_known = True
            adjective = self.rng.choice(["kind", "friendly", "clever", "old", "young", "little", "cheerful"])
            return f"{article(adjective)} {self.friend_noun} named {self.friend}"
        if key == "O":
            if self.object_known:
                return "the " + self.object
            self.object_known = True
            return f"{article(self.object_colour)} {self.object}"
        return {
            "N": self.name, "he": he, "him": him, "his": his, "fhe": fhe, "fhim": fhim, "fhis": fhis,
            "noun": self.noun, "P": preposition, "Pn": "the " + self.place, "T": self.rng.choice(things),
            "food": self.some_food()
        }[key]

    def tell(self, wording):
        return capital(re.sub(r"\{(\w+)\}", lambda m: self.slot(m[1]), wording))


TINY_BEATS = [
    "{N} lived {P} and was happy every day.", "Every morning {N} looked at {T} and smiled.",
    "{N} had {O} and played with it every day.", "One day {N} found a friend, and they lived happily ever after.",
    "{N} ate {food} and slept well."
]

OPENINGS = [
    "Once upon a time there was {a_noun} named {N}.",
    "There once was {a_noun} named {N}.",
    "Long ago there lived {a_noun} named {N}.",
    "{N} was {a_noun} who lived near {Pn}.",
    "In a small house near {Pn} lived {a_noun} named {N}.",
    "One day {a_noun} named {N} went out to play.",
]
PLACE_BEATS = [
    "One morning {N} was {P}.", "{N} often played {P}.", "One day {he} walked to {Pn}.", "{N} loved to be {P}.",
    "Every day {N} went to {Pn}."
]
SCENE_BEATS = [
    "There {he} saw {T}.", "{N} looked at {T} and smiled.", "It was a good place with {T}.",
    "All around {him} there was much to see, even {T}."
]
WEATHER_BEATS = [
    "The sun was shining and the air was warm.", "It was a cold and windy day.", "Soft rain fell from the sky.",
    "White clouds moved slowly over the sky.", "Snow lay on the ground.", "The morning was bright and quiet."
]
JOY_BEATS = [
    "{N} was very happy.", "{N} laughed and danced.", "They both laughed for a long time.", "{N} gave {F} a big hug.",
    "Now everything was good again."
]
THANKS_BEATS = [
    "{N} said, \"Thank you, my friend.\"", "{N} thanked {F} with all {his} heart.",
    "{N} said, \"You are the best friend in the world.\"", "To say thank you, {N} shared {food} with {F}."
]
ENDINGS = [
    "From that day on, {N} and {F} were best friends.", "In the evening {N} went home and slept well.",
    "They lived happily ever after.", "And {N} never forgot that day.", "It was the best day of the year for {N}.",
    "{N} went home with a warm heart.", "That night {N} dreamed of {his} new friend."
]

# beats of a plot between opening and ending: (rank, wordings); ranks 0 and 1 belong to opening and ending
PLOTS = {
    "lost": [
        (4, ["{N} had {O} and loved it very much.", "{N} took {O} everywhere.", "For {his} birthday {N} got {O}."]),
        (2, ["One day {N} lost {O}.", "Suddenly {O} was gone.", "{N} could not find {O} anymore."]),
        (6, [
            "{N} looked under the bed and behind the door.", "{N} looked everywhere, but it was not there.",
            "{He} searched from morning to noon."
        ]),
        (8, ["{N} was sad and began to cry.", "A tear ran down the face of {N}.", "{N} sat down and was very sad."]),
        (5, ["Then {F} came along.", "Just then {F} walked by.", "After a while {N} met {F}."]),
        (9, ["{F} asked, \"Why are you so sad?\"", "{F} asked, \"What is wrong, {N}?\""]),
        (10, ["{N} said, \"I have lost {O}.\"", "{N} told {F} the whole story."]),
        (3, [
            "{F} found {O} under a tree.", "{F} looked behind a big stone and found {O}.",
            "Together {N} and {F} found {O} in the grass."
        ]),
    ],
    "hungry": [
        (2, [
            "{N} was very hungry.", "One day {N} had nothing to eat.",
            "At noon {N} was so hungry that {he} could not play."
        ]),
        (5, [
            "{He} looked for food, but {he} found only stones.", "The cupboard was empty.",
            "{N} looked {P}, but there was no food."
        ]),
        (8, ["{N} walked and walked.", "{His} legs were tired.", "{His} stomach made a loud noise."]),
        (4, ["Then {N} met {F}.", "On the way {he} met {F}.", "At last {F} saw {him}."]),
        (9, ["{N} asked, \"Do you have something to eat?\"", "{F} asked, \"Are you hungry, {N}?\""]),
        (3, ["{F} gave {N} {food}.", "{F} shared {food} with {N}.", "{F} opened a basket and gave {him} {food}."]),
        (6, ["{N} ate everything.", "It tasted very good.", "{N} ate slowly and smiled."]),
    ],
    "stuck": [
        (2, [
            "One day {N} fell into a deep hole.", "Suddenly {N} was stuck in the mud.",
            "{N} climbed a tall tree and could not get down."
        ]),
        (7, ["{He} tried to get out, but {he} could not.", "{He} pulled and pushed, but nothing helped."]),
        (5, ["{N} called, \"Help me, please!\"", "{N} called for help as loud as {he} could."]),
        (4, ["{F} heard {him} and came quickly.", "Luckily {F} was near.", "Soon {F} came running."]),
        (9, ["{F} said, \"Do not be afraid.\"", "{F} said, \"Wait, I will help you.\""]),
        (8, ["{F} went away and came back with a rope.", "{F} brought a long ladder.", "{F} thought for a moment."]),
        (3, [
            "{F} helped {N} to get free.", "With the help of {F}, {N} was soon free.",
            "{F} pulled hard, and {N} was free."
        ]),
        (10, ["{N} was dirty but not hurt.", "{N} shook the dust from {his} back."]),
    ],
    "afraid": [
        (2, [
            "One night {N} heard a strange noise.", "When the dark came, {N} was afraid.",
            "A big storm came and {N} was afraid."
        ]),
        (6, ["{He} hid under a blanket.", "{His} heart beat fast.", "{He} could not sleep at all."]),
        (8, ["The wind cried around the house.", "Something moved in the dark.",
             "The noise came nearer and nearer."]),
        (4,
         ["Then {F} came in with a lamp.", "Then the door opened and there stood {F}.",
          "At last {F} came to {him}."]),
        (9, ["{F} said, \"It is only the wind.\"", "{F} said, \"There is nothing to fear.\""]),
        (3, [
            "{F} stayed with {N} until the morning.", "{F} sang a quiet song, and {N} was calm again.",
            "{N} and {F} sat together, and the fear went away."
        ]),
        (10, ["In the morning the sun came up.", "Outside the stars were bright again."]),
    ],
    "lonely": [
        (2, ["{N} had no friends and was lonely.", "{N} wanted to have a friend.", "One day {N} felt very lonely."]),
        (6, [
            "{He} played alone every day.", "{He} talked to the trees, but they did not answer.",
            "Nobody came to visit {him}."
        ]),
        (7, ["So {N} went out to look for a friend.", "{N} walked a long way to {Pn}."]),
        (4, ["There {he} met {F}.", "By chance {N} met {F}.", "On a stone sat {F}."]),
        (8, ["{N} asked, \"Do you want to play with me?\"", "{F} asked, \"May I play with you?\""]),
        (3, [
            "{N} and {F} played together all day.", "{F} and {N} began to play with {O}.",
            "{F} took {him} by the hand, and they ran to {Pn}."
        ]),
        (9, ["They played with {O} and told each other stories.", "They ran, jumped and laughed."]),
    ],
    "lostway": [
        (5, ["{N} went for a long walk.", "{N} followed a butterfly {P}.", "{N} walked farther than ever before."]),
        (2,
         ["Soon {N} did not know the way home.", "Suddenly {N} was lost.", "{N} took the wrong path and was lost."]),
        (7, ["Everything looked strange.", "All the paths looked the same.", "It was getting dark."]),
        (8, ["{He} went left and then right.", "{N} walked in a circle.", "{He} sat down on a stone and thought."]),
        (4, ["Then {N} saw {F}.", "Then a voice said hello, and it was {F}.", "At last {he} met {F}."]),
        (9, ["{N} asked, \"Do you know the way home?\"", "{N} said, \"I cannot find my house.\""]),
        (3, [
            "{F} knew the way and took {N} home.", "{F} showed {him} the right path.",
            "{F} walked with {him} until they saw the house."
        ]),
    ],
    "make": [
        (2,
         ["{N} wanted to make {O}.", "One day {N} decided to build {O}.", "{N} had a plan and wanted to make {O}."]),
        (6, [
            "{He} worked the whole morning.", "{He} took some wood and some paint.",
            "{He} needed wood, string and glue."
        ]),
        (5, ["But it broke again and again.", "But it fell apart.", "But it did not work at all."]),
        (8, ["{N} was angry and wanted to stop.", "{N} sighed and looked at the pieces."]),
        (4, ["Then {F} came to help.", "{F} saw this and came nearer.", "Then {N} asked {F} for help."]),
        (9, ["{F} said, \"Try it once more.\"", "{F} said, \"We can do it together.\""]),
        (3, [
            "Together {N} and {F} finished {O}.", "{F} held the pieces, and soon {O} was ready.",
            "With the help of {F}, {O} was done by evening."
        ]),
        (10, ["It looked wonderful.", "It was the finest in the whole village."]),
    ],
    "rescue": [
        (2, [
            "One day {N} found {F} alone in the cold.", "By the road {N} saw {F}, tired and wet.",
            "One day {N} heard the quiet crying of {F}."
        ]),
        (6, ["{F} was too weak to walk.", "{F} had a hurt foot.", "{F} was cold and hungry."]),
        (5, ["{N} asked, \"Can I help you?\"", "{N} said, \"I will take care of you.\""]),
        (3, [
            "{N} took {F} home and gave {fhim} {food}.", "{N} carried {F} home through the rain.",
            "{N} brought {F} to a warm place by the fire."
        ]),
        (7, ["{F} slept for a long time.", "{F} ate a little and closed {fhis} eyes."]),
        (4, [
            "After a few days {F} was well again.", "Soon {F} could run and jump again.",
            "In the morning {F} felt much better."
        ]),
    ],
    "learn": [
        (2, [
            "{N} wanted to learn to {skill}.", "More than anything {N} wanted to {skill}.",
            "{N} could not {skill}, and that made {him} sad."
        ]),
        (6,
         ["{He} tried it on Monday, but it did not work.", "The first time was very bad.", "{He} tried and failed."]),
        (7, ["Some of the others laughed.", "{N} almost gave up."]),
        (4, ["Then {F} offered to help.", "Then {N} met {F}, who could do it very well."]),
        (8, ["{F} said, \"Be patient and try again.\"", "{F} said, \"Look, this is how you do it.\""]),
        (5, ["Every day {N} and {F} practised together {P}.", "They practised for a whole week."]),
        (3, [
            "At last {N} could {skill}, and {F} clapped.", "With the help of {F}, {N} learned to {skill}.",
            "In the end {N} could {skill} better than anyone."
        ]),
    ],
}
SKILLS = [
    "swim", "sing", "dance", "read", "ride a bicycle", "play the flute", "fly a kite", "bake bread", "paint",
    "whistle"
]

DAY_BEATS = [
    "After that they rested under a tree.", "At noon they ate {food} together.", "{N} and {F} walked on to {Pn}.",
    "The sky was blue and full of birds.", "A little wind moved the leaves.", "They sang a song on the way.",
    "{N} drank some cool water.", "They saw {T} and stopped to look.", "{F} told {N} a funny story.",
    "The day was long and full of small wonders."
]
NEXT_BEATS = [
    "The next day {N} woke up early.", "A week later {N} went to {Pn}.", "But the story was not over yet.",
    "Some days later something happened again.", "When spring came, {N} was {P} again."
]
CLOSING_BEATS = [
    "When the sun went down, it was time to go home.", "At home {N} ate a bowl of hot soup.",
    "{N} told everyone about the day.", "Then {he} washed {his} face and went to bed.", "The moon came up over {Pn}.",
    "The stars were bright and quiet."
]


def opening(cast, about=None):
    adjective = cast.rng.choice(["little ", "small ", "young ", "brave ", "clever ", "kind ", "", "", ""])
    return cast.tell(cast.rng.choice(OPENINGS).replace("{a_noun}", article(adjective + cast.noun)))


def beats_of(cast, plot, used):
    """The middle of one plot: (rank, sentence template) in order, no wording used twice in a story."""
    rng, skill = cast.rng, cast.rng.choice(SKILLS)
    out = []
    for rank, wordings in PLOTS[plot]:
        fresh = [w for w in wordings if w not in used] or wordings
        wording = rng.choice(fresh)
        used.add(wording)
        out.append((rank, capitalised_slots(wording.replace("{skill}", skill))))
    return out


def capitalised_slots(wording):
    return wording.replace("{He}", "{he}").replace("{His}", "{his}")  # tell() puts the capital


def pick(rng, wordings, used):
    wording = rng.choice([w for w in wordings if w not in used] or wordings)
    used.add(wording)
    return capitalised_slots(wording)


def fitting_ending(cast, plot_knows_friend, used):
    wordings = [w for w in ENDINGS if plot_knows_friend or "{F}" not in w and "friend" not in w and "They" not in w]
    return pick(cast.rng, wordings, used)


def story(rng, sentences, **about):
    """A story of exactly that many sentences (2 to 14), as a list of sentences."""
    cast, used = Cast(rng, **about), set()
    plot = rng.choice(["lost", "make", "lost", "lonely"] if about.get("thing") else
                      ["afraid", "afraid", "rescue", "lostway"] if about.get("weather") == "storm" else list(PLOTS))
    beats = [(0, None), (11, pick(rng, PLACE_BEATS, used)), (12, pick(rng, SCENE_BEATS, used))]
    middle = beats_of(cast, plot, used)
    if about.get("weather"):
        beats.append(
            (2, WEATHER[about["weather"]][0] + " " + rng.choice(["on that day.", "all day.", "that morning."])))
        middle = [(r + 0.5, w) for r, w in middle]
    else:
        beats.append((13, pick(rng, WEATHER_BEATS, used)))
    if about.get("place"):
        beats[1] = (2.2, beats[1][1])
    beats += middle
    beats += [(10.5, pick(rng, THANKS_BEATS, used)), (7.5, pick(rng, JOY_BEATS, used)), (1, "END")]
    if sentences < 4:  # too short for a farewell: the last word is the rescue, or one happy day
        beats[-1] = (99, "END")
    if sentences == 2 and not about.get("weather"):
        beats.append((1, pick(rng, TINY_BEATS, used)))
    chosen = sorted(sorted(range(len(beats)), key=lambda i: beats[i][0])[:sentences])
    told = []
    for i in chosen:
        wording = beats[i][1]
        if wording is None:
            told.append(opening(cast))
        else:
            told.append(cast.tell(fitting_ending(cast, cast.friend_known, used) if wording == "END" else wording))
    return told


def long_story(rng, plots, **about):
    """A story of several plots in paragraphs: about 100 tokens for each plot."""
    cast, used = Cast(rng, **about), set()
    names = rng.sample(list(PLOTS), plots)
    if about.get("thing"):
        names[0] = rng.choice(["lost", "make"])
    first = [opening(cast)] + [cast.tell(pick(rng, b, used)) for b in (PLACE_BEATS, WEATHER_BEATS, SCENE_BEATS)]
    paragraphs = [first[:rng.randint(2, 4)]]
    for number, plot in enumerate(names):
        told = []
        if number > 0:
            cast.new_place()
            cast.new_object()
            if rng.random() < 0.5:
                cast.new_friend()
            told.append(cast.tell(pick(rng, NEXT_BEATS, used)))
        told += [cast.tell(w) for r, w in beats_of(cast, plot, used) if r < 6 or rng.random() < 0.75]
        told.append(cast.tell(pick(rng, JOY_BEATS + THANKS_BEATS, used)))
        told += [cast.tell(pick(rng, DAY_BEATS, used)) for _ in range(rng.randint(0, 2))]
        paragraphs.append(told)
    closing = [
        cast.tell(capitalised_slots(CLOSING_BEATS[i])) for i in sorted(rng.sample(range(6), rng.randint(1, 3)))
    ]
    paragraphs.append(closing + [cast.tell(fitting_ending(cast, True, used))])
    return "\n\n".join(" ".join(p) for p in paragraphs)
