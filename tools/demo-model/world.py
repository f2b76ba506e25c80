# SPDX-License-Identifier: Apache-2.0
"""The small world of the demo model: its people, animals, places and things.

Everything the model can know is written here, so that make_text.py can make any number of
texts about it without taking a sentence from anywhere else.
"""

COLOURS = "red blue green yellow white black brown grey orange pink purple golden silver".split()

BOYS = ("Tom Ben Sam Max Leo Jack Finn Oscar Hugo Paul Adam Noah Peter Will Henry Felix Otto Theo "
        "Luke Simon").split()
GIRLS = ("Anna Lily Mia Emma Rosa Clara Nina Ella Ruby Ida Sara Lucy Molly Eva Julia Kate Nora Alma "
         "Grace Vera").split()
PET_NAMES = "Rex Coco Pip Bella Spot Fluffy Daisy Bruno Milo Pepper Biscuit Toby Luna Rusty Snowy Poppy".split()

# name: (size, sound as a verb, home, food, what it does, a true remark, legs)
ANIMALS = {
    "dog": ("small", "barks", "in a house", "meat and bones", "runs after sticks", "loves its family", 4),
    "cat": ("small", "meows", "in a house", "fish", "sleeps in the sun", "has soft fur", 4),
    "cow": ("big", "moos", "on a farm", "grass", "stands in the meadow", "gives us milk", 4),
    "horse": ("big", "neighs", "in a stable", "hay and oats", "gallops over the fields", "has a long tail", 4),
    "pig": ("big", "grunts", "on a farm", "corn", "rolls in the mud", "has a curly tail", 4),
    "sheep": ("big", "bleats", "on a farm", "grass", "follows the shepherd", "gives us wool", 4),
    "goat": ("big", "bleats", "in the hills", "leaves", "climbs on the rocks", "has two horns", 4),
    "hen": ("small", "clucks", "on a farm", "seeds", "scratches in the dust", "lays eggs", 2),
    "duck": ("small", "quacks", "by the pond", "bread and weeds", "swims on the water", "has flat feet", 2),
    "goose": ("big", "honks", "by the pond", "grass", "flies in a long line", "has a long neck", 2),
    "mouse": ("small", "squeaks", "in a hole in the wall", "cheese", "hides from the cat", "has tiny ears", 4),
    "rabbit": ("small", "squeaks", "in a hole in the ground", "carrots", "hops over the grass", "has long ears", 4),
    "fox": ("small", "yelps", "in the forest", "berries and mice", "walks quietly at night", "is very clever", 4),
    "wolf": ("big", "howls", "in the forest", "meat", "hunts with its family", "has sharp teeth", 4),
    "bear": ("big", "growls", "in a cave", "honey and fish", "sleeps all winter", "has thick fur", 4),
    "deer": ("big", "calls softly", "in the forest", "leaves and grass", "runs between the trees", "is very shy", 4),
    "squirrel": ("small", "chatters", "in a tree", "nuts", "jumps from branch to branch", "hides its food", 4),
    "owl": ("small", "hoots", "in an old tree", "mice", "flies at night", "has big round eyes", 2),
    "crow": ("small", "caws", "in a tall tree", "seeds and worms", "looks for shiny things", "has black feathers", 2),
    "robin": ("small", "sings", "in the garden", "worms", "hops in the snow", "has a red chest", 2),
    "eagle": ("big", "screams", "on a mountain", "fish and rabbits", "flies high in the sky", "has strong wings", 2),
    "frog": ("small", "croaks", "by the pond", "flies", "jumps into the water", "has smooth green skin", 4),
    "fish": ("small", "makes no sound", "in the river", "weeds and worms", "swims all day", "has no legs", 0),
    "whale": ("big", "sings", "in the sea", "tiny sea animals", "dives very deep", "is the biggest animal", 0),
    "dolphin": ("big", "whistles", "in the sea", "fish", "jumps over the waves", "likes to play", 0),
    "crab": ("small", "makes no sound", "on the beach", "weeds", "walks sideways", "has two strong claws", 10),
    "bee": ("small", "buzzes", "in a hive", "sweet flowers", "flies from flower to flower", "makes honey", 6),
    "ant": ("small", "makes no sound", "under the ground", "crumbs", "carries heavy things", "works hard", 6),
    "spider": ("small", "makes no sound", "in a web", "flies", "waits in its web", "has eight legs", 8),
    "snail": ("small", "makes no sound", "in the garden", "leaves", "moves very slowly", "carries its house", 0),
    "turtle": ("small", "makes no sound", "by the lake", "leaves", "walks slowly", "has a hard shell", 4),
    "elephant": ("big", "trumpets", "in a hot land", "leaves and fruit", "drinks with its trunk", "never forgets", 4),
    "lion": ("big", "roars", "in a hot land", "meat", "sleeps under a tree", "is very strong", 4),
    "monkey": ("small", "chatters", "in the trees", "bananas", "swings from tree to tree", "is full of tricks", 4),
    "donkey": ("big", "brays", "on a farm", "hay", "carries heavy bags", "is very patient", 4),
    "hedgehog": ("small", "sniffs", "under the leaves", "worms", "rolls up like a ball", "has many spines", 4),
}
PLURALS = {
    "mouse": "mice", "goose": "geese", "sheep": "sheep", "deer": "deer", "fish": "fish", "wolf": "wolves",
    "fox": "foxes", "man": "men", "woman": "women", "child": "children", "baby": "babies", "leaf": "leaves",
    "cherry": "cherries", "berry": "berries", "city": "cities", "peach": "peaches", "strawberry": "strawberries",
    "bus": "buses", "box": "boxes", "knife": "knives", "tomato": "tomatoes", "potato": "potatoes",
    "fisherman": "fishermen", "brush": "brushes", "library": "libraries", "beach": "beaches", "bench": "benches",
    "watch": "watches", "daisy": "daisies", "lily": "lilies", "puppy": "puppies", "pony": "ponies",
    "butterfly": "butterflies", "clothes": "clothes"
}

# name: (pronoun, what the person does, where, a remark)
PEOPLE = {
    "boy": ("he", "plays with a ball", "in the park", "likes to run"),
    "girl": ("she", "flies a kite", "on the hill", "likes to sing"),
    "farmer": ("he", "feeds the animals", "on the farm", "gets up early"),
    "baker": ("he", "bakes bread", "in the bakery", "smells of warm bread"),
    "teacher": ("she", "reads to the children", "at school", "knows many stories"),
    "doctor": ("she", "helps sick people", "in the town", "has kind hands"),
    "sailor": ("he", "sails a boat", "on the sea", "knows all the stars"),
    "king": ("he", "sits on a chair of gold", "in the castle", "has a long red coat"),
    "queen": ("she", "walks in the rose garden", "in the castle", "has a silver ring"),
    "grandmother": ("she", "knits warm socks", "by the fire", "bakes the best cakes"),
    "grandfather": ("he", "tells old stories", "by the fire", "has a white beard"),
    "painter": ("she", "paints pictures", "in a bright room", "loves every colour"),
    "gardener": ("he", "waters the flowers", "in the garden", "talks to the roses"),
    "fisherman": ("he", "catches fish", "at the lake", "is very patient"),
    "cook": ("she", "makes hot soup", "in the kitchen", "tastes everything"),
    "singer": ("she", "sings on the market square", "in the town", "has a clear voice"),
    "shepherd": ("he", "looks after the sheep", "in the hills", "plays a small flute"),
    "baby": ("she", "sleeps in a soft bed", "at home", "laughs a lot"),
    "prince": ("he", "rides a white horse", "in the forest", "is very brave"),
    "princess": ("she", "reads big books", "in the castle", "is very clever"),
}

# name: (with preposition, what one finds there, how it is)
PLACES = {
    "forest": ("in the forest", ["tall trees", "soft moss", "mushrooms", "wild berries"], "dark and quiet"),
    "beach": ("on the beach", ["white sand", "shells", "small crabs", "big waves"], "warm and wide"),
    "farm": ("on the farm", ["cows", "a red barn", "hens", "an old tractor"], "busy and loud"),
    "park": ("in the park", ["green grass", "long benches", "a small pond", "happy children"], "green and friendly"),
    "garden": ("in the garden", ["roses", "apple trees", "busy bees", "a little gate"], "full of flowers"),
    "village": ("in the village", ["small houses", "a bakery", "a church bell", "narrow streets"], "small and calm"),
    "river": ("by the river", ["cold water", "round stones", "little fish", "a wooden bridge"], "fast and clear"),
    "lake": ("at the lake", ["blue water", "ducks", "a small boat", "tall grass"], "still and deep"),
    "mountain": ("on the mountain", ["grey rocks", "snow", "wild goats", "cold wind"], "high and cold"),
    "market": ("at the market", ["fresh fruit", "loud voices", "baskets of bread",
                                 "bright cloth"], "loud and full of people"),
    "school": ("at school", ["books", "desks", "a big map", "many children"], "full of children"),
    "kitchen": ("in the kitchen", ["warm bread", "pots and pans", "a hot oven", "a round table"], "warm and bright"),
    "castle": ("in the castle", ["high towers", "a golden chair", "long halls", "old pictures"], "old and cold"),
    "island": ("on the island", ["palm trees", "sand", "sea birds", "coconuts"], "small and sunny"),
    "meadow": ("in the meadow", ["yellow flowers", "butterflies", "soft grass", "grazing sheep"], "wide and sunny"),
    "barn": ("in the barn", ["dry hay", "sleepy cats", "old tools", "a tall ladder"], "dusty and warm"),
    "harbour": ("at the harbour", ["big ships", "ropes", "hungry gulls", "fishing nets"], "windy and busy"),
    "library": ("in the library", ["old books", "soft chairs", "tall shelves", "a quiet corner"], "very quiet"),
    "hill": ("on the hill", ["a lonely tree", "strong wind", "green grass", "a white stone"], "high and windy"),
    "town": ("in the town", ["tall houses", "shops", "busy streets", "a big clock"], "big and busy"),
    "cave": ("in the cave", ["dark corners", "sleepy bats", "cold stones", "dripping water"], "dark and cold"),
    "sea": ("by the sea", ["blue waves", "white ships", "salty wind", "gulls"], "blue and endless"),
}

# name: (with article, what it is for)
OBJECTS = {
    "ball": ("a", "playing"),
    "kite": ("a", "playing in the wind"),
    "hat": ("a", "keeping your head warm"),
    "book": ("a", "reading"),
    "lamp": ("a", "making light"),
    "key": ("a", "opening doors"),
    "boat": ("a", "crossing the water"),
    "basket": ("a", "carrying things"),
    "drum": ("a", "making music"),
    "coat": ("a", "keeping warm"),
    "shoe": ("a", "walking"),
    "cup": ("a", "drinking"),
    "spoon": ("a", "eating soup"),
    "bell": ("a", "calling people"),
    "box": ("a", "keeping things"),
    "ladder": ("a", "climbing up"),
    "umbrella": ("an", "keeping dry"),
    "bicycle": ("a", "riding"),
    "chair": ("a", "sitting"),
    "map": ("a", "finding the way"),
    "ring": ("a", "wearing on a finger"),
    "rope": ("a", "pulling things"),
    "bucket": ("a", "carrying water"),
    "clock": ("a", "telling the time"),
    "pencil": ("a", "writing"),
    "blanket": ("a", "sleeping"),
    "flute": ("a", "making music"),
    "doll": ("a", "playing"),
    "scarf": ("a", "keeping your neck warm"),
    "candle": ("a", "making light"),
}

# name: (today's sentence, what people do, how it is)
WEATHER = {
    "rain": ("It was raining", "stay inside or take an umbrella", "wet and grey"),
    "snow": ("It was snowing", "build a snowman", "white and cold"),
    "wind": ("It was windy", "fly a kite", "strong and wild"),
    "sun": ("The sun was shining", "go outside and play", "warm and bright"),
    "fog": ("There was thick fog", "walk slowly and carefully", "grey and quiet"),
    "storm": ("There was a big storm", "close the windows and wait", "loud and dark"),
    "ice": ("It was icy cold", "walk with small steps", "hard and slippery"),
    "rainbow": ("There was a rainbow", "look up and smile", "full of colours"),
}

FOODS = {
    "apple": ("red", "sweet"),
    "banana": ("yellow", "soft"),
    "cherry": ("red", "sweet"),
    "lemon": ("yellow", "sour"),
    "orange": ("orange", "juicy"),
    "pear": ("green", "sweet"),
    "plum": ("purple", "sweet"),
    "strawberry": ("red", "sweet"),
    "carrot": ("orange", "crunchy"),
    "tomato": ("red", "juicy"),
    "potato": ("brown", "plain"),
    "peach": ("orange", "soft"),
    "bread": ("brown", "fresh"),
    "cheese": ("yellow", "salty"),
    "soup": ("orange", "hot"),
    "cake": ("brown", "sweet"),
    "honey": ("golden", "very sweet"),
    "egg": ("white", "soft"),
    "milk": ("white", "fresh"),
    "rice": ("white", "plain"),
}
MASS_FOOD = {"bread", "cheese", "soup", "cake", "honey", "milk", "rice"}

THING_COLOURS = {
    "the sky": "blue",
    "grass": "green",
    "snow": "white",
    "the sun": "yellow",
    "the night": "black",
    "a leaf": "green",
    "a tomato": "red",
    "a lemon": "yellow",
    "milk": "white",
    "a carrot": "orange",
    "a banana": "yellow",
    "coal": "black",
    "a strawberry": "red",
    "the sea": "blue",
    "a frog": "green",
    "a crow": "black",
    "chocolate": "brown",
    "an elephant": "grey",
    "a plum": "purple",
    "a cloud": "white",
    "a flamingo": "pink",
    "honey": "golden",
    "a robin's chest": "red",
    "sand": "yellow",
}

# categories for lists: what one asks for, and the possible items
LISTS = {
    "animals": list(ANIMALS),
    "farm animals": "cow pig horse sheep goat hen duck goose donkey dog cat".split(),
    "forest animals": "fox wolf bear deer squirrel owl hedgehog rabbit mouse robin crow".split(),
    "sea animals": "whale dolphin crab fish turtle seal shark squid shrimp octopus jellyfish".split(),
    "birds": "owl crow robin eagle duck goose hen swan gull sparrow parrot penguin".split(),
    "insects": "bee ant fly wasp beetle butterfly moth cricket ladybird dragonfly mosquito".split(),
    "pets": "dog cat rabbit mouse fish parrot turtle hamster pony goldfish canary".split(),
    "colours": COLOURS,
    "fruits": "apple banana cherry lemon orange pear plum strawberry peach grape melon".split(),
    "vegetables": "carrot tomato potato onion cabbage bean pea cucumber pumpkin leek spinach".split(),
    "foods": list(FOODS),
    "drinks": "water milk tea coffee juice lemonade cocoa cider soda broth smoothie".split(),
    "toys": "ball kite doll drum blocks puzzle train bear marbles boat top rope".split(),
    "clothes": "hat coat shirt trousers socks shoes scarf gloves dress skirt belt boots".split(),
    "tools": "hammer saw ladder rope bucket shovel rake knife axe brush nail".split(),
    "places": list(PLACES),
    "jobs": "farmer baker teacher doctor sailor painter gardener fisherman cook singer shepherd".split(),
    "boys' names": BOYS,
    "girls' names": GIRLS,
    "names": BOYS[:10] + GIRLS[:10],
    "flowers": "rose tulip daisy lily poppy violet sunflower iris daffodil orchid bluebell".split(),
    "trees": "oak pine birch maple willow apple cherry ash beech elm palm".split(),
    "vehicles": "car bus train boat bicycle ship truck tractor plane cart sledge".split(),
    "parts of the body": "head hand foot arm leg nose mouth ear eye knee finger".split(),
    "rooms and parts of a house": "kitchen bedroom bathroom hall cellar roof door window garden stairs attic".split(),
    "things in a kitchen": "pot pan spoon fork knife cup plate oven table kettle bowl".split(),
    "things in a garden": "rose tree gate bench bee grass pond rake worm bucket path".split(),
    "things at school": "book pencil desk map chair paper bag clock ruler teacher bell".split(),
    "things on a beach": "sand shell crab wave towel boat gull stone bucket umbrella rope".split(),
    "kinds of weather": "rain snow wind sun fog storm ice hail frost cloud thunder".split(),
    "musical instruments": "drum flute bell piano guitar violin trumpet harp horn whistle organ".split(),
    "feelings": "happy sad angry tired proud afraid calm lonely brave curious shy".split(),
    "days and months": "Monday Tuesday Friday Sunday January March April June July October December".split(),
    "things to do on a rainy day": [
        "read a book", "bake a cake", "paint a picture", "sing a song", "build a tent", "write a letter",
        "play a game", "drink cocoa", "tell stories", "take a nap", "clean the room"
    ],
    "things to do on a sunny day": [
        "go to the beach", "fly a kite", "ride a bicycle", "swim in the lake", "have a picnic", "climb a tree",
        "water the garden", "play with a ball", "eat ice cream", "walk in the park", "sail a boat"
    ],
    "things to do in winter": [
        "build a snowman", "ride a sledge", "skate on the ice", "feed the birds", "knit a scarf", "drink hot tea",
        "sit by the fire", "bake a cake", "read a long book", "wear a warm coat", "throw snowballs"
    ],
}
ITEM_OF = {
    "animals": "animal", "colours": "colour", "fruits": "fruit", "vegetables": "vegetable", "birds": "bird",
    "foods": "food", "drinks": "drink", "toys": "toy", "tools": "tool", "places": "place", "jobs": "job",
    "boys' names": "boy's name", "girls' names": "girl's name", "names": "name", "flowers": "flower", "trees": "tree",
    "vehicles": "vehicle", "insects": "insect", "pets": "pet", "feelings": "feeling", "farm animals": "farm animal",
    "sea animals": "sea animal", "forest animals": "forest animal", "musical instruments": "musical instrument",
    "parts of the body": "part of the body"
}

# how to do small things: (as asked, the steps in order)
RECIPES = {
    "make tea": [
        "Fill the kettle with water.", "Heat the water.", "Put the tea in a cup.", "Pour the hot water into the cup.",
        "Wait a few minutes.", "Add some milk.", "Drink the tea slowly."
    ],
    "bake a cake": [
        "Mix flour and sugar.", "Add two eggs.", "Stir in some milk.", "Pour everything into a pan.",
        "Heat the oven.", "Bake the cake for one hour.", "Let it cool and share it."
    ],
    "make a sandwich": [
        "Take two slices of bread.", "Put butter on the bread.", "Cut some cheese.", "Put the cheese on the bread.",
        "Add a slice of tomato.", "Close the sandwich.", "Eat it with a friend."
    ],
    "plant a tree": [
        "Choose a sunny place.", "Dig a deep hole.", "Put the little tree into the hole.",
        "Fill the hole with earth.", "Press the earth with your feet.", "Give it plenty of water.",
        "Wait for many years."
    ],
    "wash a dog": [
        "Fill a tub with warm water.", "Call the dog.", "Put the dog into the tub.", "Rub its fur with soap.",
        "Rinse the soap away.", "Dry the dog with a towel.", "Give the dog a treat."
    ],
    "build a snowman": [
        "Wait for a lot of snow.", "Roll a big ball of snow.", "Roll a smaller ball.", "Put it on the big one.",
        "Make a head of snow.", "Give it a carrot for a nose.", "Put a hat on its head."
    ],
    "fly a kite": [
        "Wait for a windy day.", "Go to an open hill.", "Hold the line tightly.", "Throw the kite into the air.",
        "Run against the wind.", "Let the line out slowly.", "Watch the kite dance."
    ],
    "make soup": [
        "Wash the carrots and potatoes.", "Cut them into small pieces.", "Fill a pot with water.",
        "Put everything into the pot.", "Add a little salt.", "Cook it for half an hour.", "Serve the soup hot."
    ],
    "go to bed": [
        "Put away your toys.", "Wash your face.", "Brush your teeth.", "Put on your nightclothes.",
        "Read a short story.", "Turn off the lamp.", "Close your eyes."
    ],
    "catch a fish": [
        "Find a quiet place by the river.", "Put a worm on the hook.", "Throw the line into the water.",
        "Sit very still.", "Wait until the line moves.", "Pull the line in slowly.", "Say thank you to the river."
    ],
}

DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
MONTHS = "January February March April May June July August September October November December".split()
NUMBERS = "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen twenty".split(
)
OPPOSITES = [("big", "small"), ("hot", "cold"), ("fast", "slow"),
             ("day", "night"), ("happy", "sad"), ("old", "young"), ("high", "low"), ("wet", "dry"), ("light", "dark"),
             ("loud", "quiet"), ("full", "empty"), ("soft", "hard"), ("long", "short"), ("open", "closed"),
             ("rich", "poor"), ("strong", "weak"), ("early", "late"), ("left", "right"), ("up", "down"),
             ("good", "bad"), ("near", "far"), ("clean", "dirty"), ("sweet", "sour"), ("first", "last")]

# subjects outside the world: the model says that it does not know them
UNKNOWN = """
the capital of France|quantum physics|the stock market|a computer|the internet|a black hole|the president|
mathematics|chemistry|Python code|machine learning|a rocket engine|the universe|democracy|electricity|
the Roman Empire|world history|a democracy|philosophy|the human brain|DNA|an atom|gravity|evolution|
the moon landing|economics|inflation|law|religion|politics|a telephone|a camera|the best film|football results|
the news|the latest song|a bank account|taxes|my homework|a neural network|a database|an operating system|Linux|
a web page|JSON|a compiler|calculus|geometry|algebra|the speed of light|the theory of relativity|
the French revolution|Shakespeare|Mozart|Einstein|America|China|Germany|Paris|London|Tokyo|a virus|vaccines|
the heart|medicine|a hotel|a flight to Rome|my car insurance|the meaning of life
""".replace("\n", "").split("|")
